package delivery_test

import (
	"strconv"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// numbersIn returns the events of messages by number, and fails where an event came with
// two numbers, a number with two events, or numbers are missing.
func numbersIn(t *testing.T, messages []testkit.Received) (events []string) {
	t.Helper()
	eventOf, numberOf := map[int]string{}, map[string]int{}
	for _, m := range messages {
		text, event := m.Header.Get("Service-Sequence"), m.Header.Get("Service-Event-Id")
		n, err := strconv.Atoi(text)
		switch {
		case err != nil || n < 1:
			t.Fatalf("%s came with the number %q", event, text)
		case eventOf[n] != "" && eventOf[n] != event:
			t.Fatalf("number %d came with %s and with %s", n, eventOf[n], event)
		case numberOf[event] != 0 && numberOf[event] != n:
			t.Fatalf("%s came with the numbers %d and %d", event, numberOf[event], n)
		}
		eventOf[n], numberOf[event] = event, n
	}
	for n := 1; n <= len(eventOf); n++ {
		if eventOf[n] == "" {
			t.Fatalf("number %d of %d did not come", n, len(eventOf))
		}
		events = append(events, eventOf[n])
	}
	return events
}
