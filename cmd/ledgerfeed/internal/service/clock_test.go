package service

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/operate"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/migrations"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

func TestMain(m *testing.M) { testkit.Main(m, migrations.Up) }

// unknownKeys refuses every key.
type unknownKeys struct{}

func (unknownKeys) Authenticate(context.Context, string) (*access.Key, error) {
	return nil, access.ErrRefused
}

func (unknownKeys) AuthenticateSlowly(context.Context, string) (*access.Key, error) {
	return nil, access.ErrRefused
}

// A process whose clock is far from the database's says so, is not ready and takes no
// key, until it is right.
func TestAWrongClockIsNotReady(t *testing.T) {
	t.Parallel()
	now := time.Now().AddDate(1, 0, 0)
	pool := testkit.Must(pg.Open(t.Context(), testkit.NewDatabase(t), pg.Options{}))(t)
	t.Cleanup(pool.Close)
	s := &Service{shared: pool.Share, env: &operate.Env{Env: cli.Env{Clock: func() time.Time { return now }, Logger: slog.New(slog.DiscardHandler)}}}
	for _, c := range []struct {
		now  time.Time
		want string
	}{{now, "5 minutes apart"}, {time.Now(), ""}, {time.Now().Add(-time.Hour), "5 minutes apart"}} {
		now = c.now
		if err := s.compareClock(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, err := keysByClock{unknownKeys{}, &s.wrongClock}.Authenticate(t.Context(), "text")
		_, slow := keysByClock{unknownKeys{}, &s.wrongClock}.AuthenticateSlowly(t.Context(), "text")
		want := access.ErrUnavailable
		if c.want == "" {
			want = access.ErrRefused
		}
		if !errors.Is(err, want) || !errors.Is(slow, want) {
			t.Errorf("at %v: a key is answered %v and %v", c.now, err, slow)
		}
		if reason := s.reasonNotReady(""); !strings.Contains(reason, c.want) || reason != "" && c.want == "" {
			t.Errorf("at %v: not ready because %q", c.now, reason)
		}
	}
}
