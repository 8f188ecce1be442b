package watermillsql_test

import (
	"testing"

	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"go.uber.org/goleak"

	"github.com/ledgerfeed/ledgerfeed/eventlog/watermillsql"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestGoroutinesEnd starts and stops subscribers several times. It is not parallel,
// because it would find the goroutines of other tests.
func TestGoroutinesEnd(t *testing.T) {
	b := setup(t)
	b.projecting(t)
	b.append(t, many(t, "w", 3)...)
	before := goleak.IgnoreCurrent()
	for range 5 {
		sub := testkit.Must(watermillsql.NewSubscriber(wsql.BeginnerFromPgx(b.pool), watermillsql.SubscriberConfig{ConsumerGroup: "g", PollInterval: ms(1)}))(t)
		testkit.Must(sub.Subscribe(t.Context(), "w"))(t)
		if err := sub.Close(); err != nil {
			t.Error(err)
		}
	}
	b.pool.Reset() // idle connections have goroutines, too
	goleak.VerifyNone(t, before)
}
