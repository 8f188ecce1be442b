package watermillsql_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill"

	"github.com/ledgerfeed/ledgerfeed/eventlog/watermillsql"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestConsumerGroupNoticesAnotherLog: a group whose checkpoint is of a log that is
// not there any more gets an error in its own log, and no message, instead of passing
// over entries.
func TestConsumerGroupNoticesAnotherLog(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]string{
		"another entry at its position":  `UPDATE event_log SET chain = sha256('other') WHERE workspace_id = 'w' AND position = 2`,
		"a log that has not come so far": `UPDATE log_checkpoint SET position = 40 WHERE workspace_id = 'w' AND consumer = 'tap:g'`,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.projecting(t)
			b.append(t, client(t, "w", "a", "n"), client(t, "w", "b", "n"))
			messages, sub := b.member(t, "g", "w")
			acked(t, messages, "a", "b")
			testkit.Eventually(t, func() error {
				if p := b.checkpoint(t, "w", "tap:g"); p != 2 {
					return fmt.Errorf("the group is at %d", p)
				}
				return nil
			})
			if err := sub.Close(); err != nil {
				t.Fatal(err)
			}
			b.exec(t, `ALTER TABLE event_log DISABLE TRIGGER ALL`)
			b.exec(t, change)
			b.append(t, client(t, "w", "c", "n"))
			logged := &testkit.Buffer{}
			messages, _ = b.member(t, "g", "w", func(c *watermillsql.SubscriberConfig) {
				c.RetryInterval = ms(5)
				c.Logger = watermill.NewStdLoggerWithOut(logged, false, false)
			})
			testkit.Eventually(t, func() error {
				if !strings.Contains(logged.String(), "cannot continue after position") {
					return errors.New("nothing is said: " + logged.String())
				}
				return nil
			})
			select {
			case m := <-messages:
				t.Errorf("message %s came", m.UUID)
			default:
			}
			// Under another name it begins again.
			again, _ := b.member(t, "g2", "w")
			acked(t, again, "a", "b", "c")
		})
	}
}
