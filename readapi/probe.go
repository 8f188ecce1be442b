package readapi

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/readapi/route"
)

// Probe does what requests need: it reads a page of a list and of the events, of a
// workspace that does not exist. The error says what is in the way.
func (a *API) Probe(ctx context.Context) error {
	for _, r := range route.Table() {
		if r.Kind != route.Rows {
			continue
		}
		statement := listStatement(r.Resource, nil, 0, visibility{pay: true, margin: true})
		rows, err := a.cfg.Pool.Query(ctx, statement, "", int64(0), "", (*time.Time)(nil), 1, int64(0), make([]byte, len(eventlog.Mark{}.Chain)))
		if err == nil {
			rows.Close()
			err = rows.Err()
		}
		if err != nil {
			return fmt.Errorf("read a page of %s: %w", r.Resource.Table, err)
		}
		break // all lists are alike
	}
	_, err := a.cfg.Feed.Page(ctx, eventlog.FeedQuery{Limit: 1, Pay: true})
	if _, unknown := errors.AsType[*domain.UnknownWorkspaceError](err); !unknown {
		return fmt.Errorf("read a page of events: %w", err)
	}
	return nil
}
