package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// besideWindow is of so many messages, two seconds' worth: a machine that stands
// still for a moment spoils those of that moment, not the others.
const besideWindow = 200

// beside is what 20 webhooks met in one round.
type beside struct {
	all []time.Duration
	p99 float64 // of two seconds, the middle one, in ms
}

func besideOf(list []arrival) beside {
	b := beside{all: took(list)}
	var windows []float64
	for w := range slices.Chunk(b.all, besideWindow) {
		if len(w) == besideWindow || len(windows) == 0 {
			windows = append(windows, quantile(w, 0.99))
		}
	}
	b.p99 = middle(windows)
	return b
}

// besideRound is a round of 20 webhooks beside 180 that hang, and its limit, beside
// 180 that answer, right before or after it.
type besideRound struct{ hanging, answering beside }

func (r besideRound) ratio() float64 { return r.hanging.p99 / r.answering.p99 }

// deliverBesideHanging compares the p99 of 20 webhooks beside 180 that hang
// with that beside 180 that answer: the same events, the same work in the
// database. Over HTTP/2 a message to a receiver that hangs is one more stream; over
// HTTP/1.1 it needs a connection of its own.
//
// A shared machine stands still now and then, its disk for half a second, and is
// slower in one minute than in the next, whoever the neighbours are. So no commit
// waits for the disk here; what counts of a round is the p99 of two seconds, the
// middle one of all of them, and of the rounds the middle one by their ratio, of
// which every other begins with those that hang. The p99 of all messages of all
// rounds is printed, too.
func deliverBesideHanging(ctx context.Context, o *Options) error {
	const rounds = 5
	protocols := []protocol{http2, http1}
	times := map[protocol][]besideRound{}
	for i := range rounds {
		for _, speaks := range protocols {
			round, err := besideInTurn(ctx, o, speaks, i%2 == 1)
			if err != nil {
				return err
			}
			o.say("round %d of %d over %s: p99 %.2f ms beside those that hang, %.2f ms beside those that answer: %.2f",
				i+1, rounds, speaks, round.hanging.p99, round.answering.p99, round.ratio())
			times[speaks] = append(times[speaks], round)
		}
	}
	for _, speaks := range protocols {
		const is = "the same beside 180 that answer"
		var hanging, answering []time.Duration
		for _, r := range times[speaks] {
			hanging, answering = append(hanging, r.hanging.all...), append(answering, r.answering.all...)
		}
		mid := middleBy(times[speaks], besideRound.ratio)
		o.Report.add(Figure{
			Name: fmt.Sprintf("p99 of 20 webhooks beside 180 that hang, all over %s", speaks), Value: mid.hanging.p99, Unit: "ms",
			Limit: mid.answering.p99, LimitIs: is,
		}.ratioAtMost(1.1))
		o.Report.add(Figure{Name: "    of all messages of all rounds", Value: quantile(hanging, 0.99), Unit: "ms", Limit: quantile(answering, 0.99), LimitIs: is})
	}
	return nil
}

// besideInTurn measures a round, in this or the other order.
func besideInTurn(ctx context.Context, o *Options, speaks protocol, hangingFirst bool) (r besideRound, err error) {
	turns := []struct {
		hang bool
		met  *beside
	}{{false, &r.answering}, {true, &r.hanging}}
	if hangingFirst {
		slices.Reverse(turns)
	}
	for _, turn := range turns {
		if *turn.met, err = deliverBeside(ctx, o, speaks, turn.hang); err != nil {
			return r, err
		}
	}
	return r, nil
}

func deliverBeside(ctx context.Context, o *Options, speaks protocol, hang bool) (b beside, err error) {
	const (
		rate   = 200
		others = 180
	)
	err = withSetting(ctx, o, func(ctx context.Context, s *setting) error {
		if err := s.withoutDisk(ctx); err != nil {
			return err
		}
		_, list, err := (&delivering{setting: s}).latency(ctx, rate, speaks, neighbours{others, hang}, 2*s.duration(visibleTime))
		if err == nil {
			b = besideOf(list)
		}
		return err
	})
	return b, err
}
