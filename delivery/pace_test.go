package delivery

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestDeadReceiversTakeTurns: webhooks that do nothing but fail, dearly, are
// started at a pace, each in its turn, and none that answers waits for them.
func TestDeadReceiversTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const pace, dead, each = 5, 3, 200
		d := newDesk(time.Now, Policy{}, 10, 1000, pace)
		hold := func(id string) *lane {
			l := newLane(key{workspace, id})
			l.hook = &hook{on: true}
			for p := range int64(each) {
				l.queue[fresh] = append(l.queue[fresh], &job{lane: l, lot: fresh, position: p + 1})
			}
			d.lanes[l.key] = l
			d.offer(l)
			return l
		}
		started := map[string]int{}
		drain := func() (n int) { // what may start, as if each attempt ended at once
			for j := d.take(); j != nil; j = d.take() {
				started[j.lane.key.webhookID]++
				n++
				d.mu.Lock()
				j.lane.underWay--
				d.underWay--
				j.lane.recorded(j)
				d.offer(j.lane)
				d.mu.Unlock()
			}
			return n
		}
		var lanes []*lane
		for i := range dead {
			l := hold(fmt.Sprintf("wh_%d", i))
			l.dear = dearAfter
			lanes = append(lanes, l)
		}
		hold("wh_fine")
		if drain(); started["wh_fine"] != each {
			t.Fatalf("%d messages of the webhook that answers were started, want %d", started["wh_fine"], each)
		}
		atOnce := 0
		for _, l := range lanes {
			atOnce += started[l.key.webhookID]
		}
		if atOnce != turnsSaved*pace {
			t.Errorf("%d of the others were started at once, want %d", atOnce, turnsSaved*pace)
		}
		clear(started)
		const seconds = 6
		for range seconds * pace * 2 {
			<-time.After(time.Second / (2 * pace)) // of the test's own clock
			synctest.Wait()
			if n := drain(); n > 1 {
				t.Fatalf("%d were started together, want one at a time", n)
			}
		}
		for _, l := range lanes {
			if n := started[l.key.webhookID]; n < seconds*pace/dead-1 || n > seconds*pace/dead+1 {
				t.Errorf("%d messages of %s were started in %d s, want %d", n, l.key.webhookID, seconds, seconds*pace/dead)
			}
		}
		clear(started)
		d.mu.Lock()
		d.judgeCost(lanes[1], false) // its receiver is back
		left := lanes[1].waiting()
		d.mu.Unlock()
		if drain(); started[lanes[1].key.webhookID] != left || len(started) != 1 {
			t.Errorf("started %v, want all %d of the webhook whose receiver is back", started, left)
		}
		<-time.After(time.Hour) // of the test's own clock
		synctest.Wait()
		if n := drain(); n < turnsSaved*pace || n > turnsSaved*pace+dead {
			t.Errorf("%d were started after an hour, want %d, and a turn of each that waited", n, turnsSaved*pace)
		}
	})
}

// TestNobodyJumpsTheQueue: who comes while others wait goes behind them, although
// there is a turn to be had at that moment.
func TestNobodyJumpsTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // where no time passes
		d := newDesk(time.Now, Policy{}, 10, 1000, 1)
		if !d.pace.AllowN(time.Now(), turnsSaved-1) { // one is left
			t.Fatal("no turns are saved")
		}
		first, second := newLane(key{workspace, "wh_1"}), newLane(key{workspace, "wh_2"})
		first.dear, second.dear = dearAfter, dearAfter
		d.turns, d.turning = []*lane{first}, true
		if !d.paced(second) || len(d.turns) != 2 || d.turns[1] != second {
			t.Fatalf("it does not wait behind the first: %v", d.turns)
		}
		d.giveTurn()
		if !first.hasTurn || second.hasTurn || d.paced(first) {
			t.Error("the first does not have the first turn")
		}
		if len(d.turns) != 1 || d.turns[0] != second {
			t.Error("the second is not the next")
		}
	})
}

// TestDearFailure: what ends soon over a connection that is kept is cheap.
func TestDearFailure(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		attempt Attempt
		want    bool
	}{
		{"a success", Attempt{Outcome: OutcomeSuccess}, false},
		{"a success over a new connection", Attempt{Outcome: OutcomeSuccess, Handshake: true}, false},
		{"an error as the answer", Attempt{Outcome: OutcomeAnswered}, false},
		{"an error as the answer over a new connection", Attempt{Outcome: OutcomeAnswered, Handshake: true}, true},
		{"no answer", Attempt{Outcome: OutcomeTimeout}, true},
		{"no answer over a new connection", Attempt{Outcome: OutcomeTimeout, Handshake: true}, true},
		{"a wrong certificate", Attempt{Outcome: OutcomeTLS, Handshake: true}, true},
		{"no connection", Attempt{Outcome: OutcomeUnreachable}, false},
		{"an address that is not public", Attempt{Outcome: OutcomeBlocked}, false},
	} {
		if got := dearFailure(c.attempt); got != c.want {
			t.Errorf("%s: %t, want %t", c.name, got, c.want)
		}
	}
}

// TestPaceIsForDearFailures: receivers that hang up after each message, or hang, are
// paced until they take one; one that fails and keeps its connection is not.
func TestPaceIsForDearFailures(t *testing.T) {
	t.Parallel()
	const pace, messages, bound = 1, 200, 10
	b := setup(t, Settings{Timeout: time.Second})
	var came atomic.Int64
	back := make(chan struct{})
	hangsUp := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { // HTTP/1.1 alone
		came.Add(1)
		select {
		case <-back:
		default:
			w.Header().Set("Connection", "close")
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	t.Cleanup(hangsUp.Close)
	hangs := newReceiver(t, func(_ int, _ http.ResponseWriter, r *http.Request) { // over one connection, in HTTP/2
		came.Add(1)
		select {
		case <-back:
		case <-r.Context().Done():
		}
	})
	fails := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	began := time.Now()
	e, _ := b.engine(func(c *Config) { c.Pace, c.Bound = pace, bound })
	for ws, url := range map[string]string{"w1": hangsUp.URL, "w2": hangs.URL, "w3": fails.URL} {
		b.hookIn(ws, url)
		b.appendTo(ws, "invoice.reversed", messages)
	}
	fails.wait(t, messages)
	testkit.Eventually(t, func() error {
		if n := e.desk.load().turns; n != 2 {
			return fmt.Errorf("%d webhooks wait for a turn, want 2", n)
		}
		return nil
	})
	most := 2*(dearAfter+bound) + pace*(turnsSaved+1+int(time.Since(began)/time.Second))
	if n := int(came.Load()); n < 2*dearAfter || n > most {
		t.Errorf("%d messages came, want %d to %d", n, 2*dearAfter, most)
	}
	close(back)
	testkit.Eventually(t, func() error { // at that pace it would take minutes
		if n := came.Load(); n < 2*messages {
			return fmt.Errorf("%d messages came, want %d", n, 2*messages)
		}
		return nil
	})
}
