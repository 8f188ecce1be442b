//go:build outside

package delivery_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery/attempt"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// gapMessage is an event of a gapScenario, and its message.
type gapMessage struct {
	event  string        // its id
	age    time.Duration // how long before the test it was published
	number int           // of its message; 0: the message is lost
}

// gapScenario sends messages to a receiver in steps, and waits after each until every event
// was printed.
type gapScenario struct {
	env   []string
	steps [][]gapMessage
	reads []string // the event from whose time on the feed is read; empty: from 30 days back
}

func gapScenarios() map[string]gapScenario {
	const day, minute = 24 * time.Hour, time.Minute
	return map[string]gapScenario{
		// Numbers are not in the order of time once missed events are sent.
		"lost before missed ones": {steps: [][]gapMessage{{
			{"live19", 9 * minute, 19},
			{"live20", 8 * minute, 0},
			{"missed21", day + 9*minute, 21},
			{"missed22", day, 22},
		}}, reads: []string{""}},
		"the oldest missed one is lost": {steps: [][]gapMessage{{
			{"live19", 9 * minute, 19},
			{"missed20", 2 * day, 0},
			{"missed21", day, 21},
			{"live22", 8 * minute, 22},
		}}, reads: []string{""}},
		// The event before a gap is known again after a late message.
		"two gaps, one closes": {steps: [][]gapMessage{{
			{"live19", 9 * minute, 19},
			{"live21", 7 * minute, 21},
			{"live22", 6 * minute, 0},
			{"live23", 5 * minute, 23},
			{"live20", 8 * minute, 20},
		}}, reads: []string{"live21"}},
		"the first one is lost": {env: []string{"WEBHOOK_EXPECTED=1"}, steps: [][]gapMessage{{
			{"live1", 9 * minute, 0},
			{"live2", 8 * minute, 2},
		}, {
			{"live3", 7 * minute, 0},
			{"live4", 6 * minute, 4},
		}}, reads: []string{"", "live2"}},
		// A believed 500 would let what is missing up to there go unnoticed.
		"numbers that somebody changed": {steps: [][]gapMessage{{
			{"live19", 9 * minute, 19},
			{"live19", 9 * minute, 500},
			{"live20", 8 * minute, 20 + 10_000},
			{"live21", 7 * minute, 0},
			{"live22", 6 * minute, 22},
		}, {
			{"live23", 5 * minute, 0},
			{"live24", 4 * minute, 24},
		}}, reads: []string{"live19", "live22"}},
		// What was fetched before its message came is no gap.
		"fetched before it came": {steps: [][]gapMessage{{
			{"live19", 9 * minute, 19},
			{"live20", 8 * minute, 0},
			{"live21", 7 * minute, 21},
			{"live22", 6 * minute, 0},
		}, {
			{"live22", 6 * minute, 22},
			{"live23", 5 * minute, 23},
			{"live24", 4 * minute, 0},
			{"live25", 3 * minute, 25},
		}}, reads: []string{"live19", "live23"}},
	}
}

func (s gapScenario) run(t *testing.T, command []string) {
	const secret = "whsec_0123456789012345678901234567890123456789"
	feed := newFeed(t)
	address, lines := runExample(t, command, append(s.env, "WEBHOOK_SECRET="+secret,
		"API_URL="+feed.URL, "API_KEY=key", "WEBHOOK_GAP_SECONDS=0.3")...)
	now := time.Now().UTC()
	bodies, at, printed := map[string]string{}, map[string]string{}, map[string]int{}
	for _, step := range s.steps {
		for _, m := range step {
			if bodies[m.event] == "" {
				at[m.event] = now.Add(-m.age).Format("2006-01-02T15:04:05.000Z")
				bodies[m.event] = fmt.Sprintf(`{"id":%q,"type":"invoice.reversed","created_at":%q,"data":{"object_type":"invoice","object_id":"in_1"}}`, m.event, at[m.event])
				feed.put(json.RawMessage(bodies[m.event]))
			}
		}
		for _, m := range step {
			if m.number > 0 {
				postNumbered(t, address, secret, bodies[m.event], m.number)
			}
		}
		for len(printed) < len(bodies) {
			line, ok := nextLine(t, lines)
			if !ok {
				t.Fatalf("only %v were printed", printed)
			}
			printed[strings.Fields(line)[1]]++
		}
	}
	for id, n := range printed {
		if n != 1 {
			t.Errorf("event %s was printed %d times", id, n)
		}
	}
	reads := feed.readings()
	if len(reads) != len(s.reads) {
		t.Fatalf("the feed was read from %v, want %q", reads, s.reads)
	}
	for i, id := range s.reads {
		since := testkit.Must(time.Parse(time.RFC3339, reads[i]))(t)
		if id != "" && reads[i] != at[id] || id == "" && now.Add(-30*24*time.Hour).Sub(since).Abs() > time.Hour {
			t.Errorf("the feed was read from %v, want %q", reads, s.reads)
		}
	}
}

func postNumbered(t *testing.T, address, secret, body string, number int) {
	t.Helper()
	r := testkit.Must(http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address, strings.NewReader(body)))(t)
	r.Header.Set("Service-Signature", attempt.Sign(time.Now(), []byte(body), secret))
	r.Header.Set("Service-Sequence", strconv.Itoa(number))
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusNoContent {
		t.Fatalf("message %d was answered %d", number, answer.StatusCode)
	}
}
