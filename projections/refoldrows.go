package projections

import (
	"context"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// foldedRows are the rows that a fold of a workspace's log has made so far: in
// memory, or in fresh tables where they are too many for it. A refold gives
// them the entries, and compares the read tables with them or repairs those.
type foldedRows interface {
	// fold gives entries their effect: the next ones, no more than a page.
	fold(ctx context.Context, entries []domain.Entry) error

	// settle ends the first fold: a row that changes from here on is doubted.
	settle()

	// list begins a listing of a sheet.
	list(s *sheet) lister

	// images calls visit for each of the keys, in their order, with the columns
	// of its row: nil where there must be none. They are good until visit
	// returns.
	images(ctx context.Context, s *sheet, keys []key, visit func(i int, image []string) error) error

	// doubt keeps that a stored row may be wrong, and doubted gives all such
	// keys of a sheet in order, a page at a time.
	doubt(ctx context.Context, s *sheet, k key) error
	doubted(ctx context.Context, s *sheet, each func([]key) error) error

	count(ctx context.Context) (int64, error)  // of all rows
	newest(ctx context.Context) (int64, error) // the last entry that any row shows

	close(ctx context.Context)
}

// lister calls each with the keys after one, through another (nil: all), in
// order and a page at a time. It may name rows that are there no more, and
// each may keep and change what it is given.
type lister func(ctx context.Context, after key, through *key, each func([]key) error) error

// apply is the effect of one entry; see Rules.
type apply func(*domain.State, *domain.Entry)
