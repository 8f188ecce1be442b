package bench

import (
	"context"
	"slices"
	"time"
)

// beside is how the neighbours of the measured webhooks are.
type beside struct {
	speaks protocol
	way    manner
}

// besideTimes are the rounds of one of these.
type besideTimes struct {
	all     []time.Duration
	windows []float64 // the p99 of each window
}

// besideWindow is of so many messages, two seconds' worth: a machine that stands
// still for a moment spoils those of that moment, not the others.
const besideWindow = 200

func (t *besideTimes) add(list []arrival) {
	times := took(list)
	t.all = append(t.all, times...)
	for w := range slices.Chunk(times, besideWindow) {
		if len(w) == besideWindow || len(t.windows) == 0 {
			t.windows = append(t.windows, quantile(w, 0.99))
		}
	}
}

// deliverBesideHanging compares the p99 of 20 webhooks beside 180 that hang
// with that beside 180 that answer: the same events, the same work in the
// database. Over HTTP/2 a message to a receiver that hangs is one more stream; over
// HTTP/1.1 it needs a connection of its own, so there the limit is also taken
// beside receivers that hang up after each answer.
//
// No commit waits for the disk here, and what counts is the p99 of two seconds, the
// middle one of all of them; the ways take turns. A shared machine stands still now
// and then, its disk for half a second, whoever the neighbours are. That is most of
// what the p99 of all messages tells of, which is printed too.
func deliverBesideHanging(ctx context.Context, o *Options) error {
	const (
		rate   = 200
		others = 180
		rounds = 3
	)
	ways := []beside{{http2, answering}, {http2, hanging}, {http1, answering}, {http1, hangingUp}, {http1, hanging}}
	rows := map[beside]*besideTimes{}
	for _, way := range ways {
		rows[way] = &besideTimes{}
	}
	for range rounds {
		for _, way := range ways {
			err := withSetting(ctx, o, func(ctx context.Context, s *setting) error {
				if err := s.withoutDisk(ctx); err != nil {
					return err
				}
				_, list, err := (&delivering{setting: s}).latency(ctx, rate, way.speaks, neighbours{others, way.way}, 2*s.duration(visibleTime))
				rows[way].add(list)
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	for _, f := range []struct {
		name        string
		speaks      protocol
		limit       manner
		connections string
		judged      bool
	}{
		{"p99 of 20 webhooks beside 180 that hang, all over HTTP/2", http2, answering, "", true},
		{"p99 of 20 webhooks beside 180 that hang, all over HTTP/1.1", http1, answering, " over connections kept open", true},
		{"    as many new connections", http1, hangingUp, "", false},
	} {
		hang, limit := rows[beside{f.speaks, hanging}], rows[beside{f.speaks, f.limit}]
		is := "the same beside 180 " + string(f.limit) + f.connections
		figure := Figure{Name: f.name, Value: middle(hang.windows), Unit: "ms", Limit: middle(limit.windows), LimitIs: is}
		if f.judged {
			figure = figure.ratioAtMost(1.1)
		}
		o.Report.add(figure)
		o.Report.add(Figure{Name: "    of all messages", Value: quantile(hang.all, 0.99), Unit: "ms", Limit: quantile(limit.all, 0.99), LimitIs: is})
	}
	return nil
}
