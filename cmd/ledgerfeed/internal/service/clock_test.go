package service

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

func TestMain(m *testing.M) { testkit.Main(m, migrations.Up) }

// A process whose clock is far from the database's says so and is not ready, until it
// is right.
func TestAWrongClockIsNotReady(t *testing.T) {
	t.Parallel()
	now := time.Now().AddDate(1, 0, 0)
	s := &Service{pool: testkit.Pool(t), env: &cli.Env{Clock: func() time.Time { return now }, Logger: slog.New(slog.DiscardHandler)}}
	for _, c := range []struct {
		now  time.Time
		want string
	}{{now, "5 minutes apart"}, {time.Now(), ""}, {time.Now().Add(-time.Hour), "5 minutes apart"}} {
		now = c.now
		if err := s.compareClock(t.Context()); err != nil {
			t.Fatal(err)
		}
		if reason := s.reasonNotReady(); !strings.Contains(reason, c.want) || reason != "" && c.want == "" {
			t.Errorf("at %v: not ready because %q", c.now, reason)
		}
	}
}
