package pg_test

import (
	"context"
	"errors"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

func TestWithin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		wait := func(ctx context.Context) error {
			<-ctx.Done()
			return errors.Join(&pgconn.PgError{Code: "57014"}, ctx.Err())
		}
		began := time.Now()
		err := pg.Within(t.Context(), time.Minute, func(ctx context.Context) error { return pg.Within(ctx, time.Second, wait) })
		silent, ok := errors.AsType[*pg.SilentError](err)
		if !ok || silent.After != time.Second || !time.Now().Equal(began.Add(time.Second)) {
			t.Errorf("without an answer: %v at %v, began at %v", err, time.Now(), began)
		}
		if answered, ok := errors.AsType[*pgconn.PgError](err); !ok || answered.Code != "57014" {
			t.Errorf("the cause cannot be found in %v", err)
		}
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		if err := pg.Within(cancelled, time.Second, wait); errors.As(err, new(*pg.SilentError)) || !errors.Is(err, context.Canceled) {
			t.Errorf("the caller ended it: %v", err)
		}
		if err := pg.Within(t.Context(), time.Second, func(context.Context) error { return nil }); err != nil {
			t.Errorf("an answer: %v", err)
		}
	})
}

// TestTheFirstHostIsSilent: a pool with several hosts opens although the first one takes connections and
// answers nothing.
func TestTheFirstHostIsSilent(t *testing.T) {
	t.Parallel()
	database := testkit.NewDatabase(t)
	silent, first := testkit.Link(t, database)
	silent.Partition()
	_, second := testkit.Link(t, database)
	address := testkit.Must(url.Parse(first))(t)
	query := address.Query()
	for _, name := range []string{"host", "port"} {
		query.Set(name, query.Get(name)+","+testkit.Must(url.Parse(second))(t).Query().Get(name))
	}
	query.Set("connect_timeout", "1")
	address.RawQuery = query.Encode()
	testkit.Must(pg.Open(t.Context(), address.String(), pg.Options{MaxConns: 4}))(t).Close()
}
