package replay

import (
	"context"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/projections/table"
)

// rowStore holds the rows that the fold of a workspace's log has made so far:
// in memory (memoryStore), or in shadow tables when they would take too much of
// it (shadowStore).
type rowStore interface {
	// fold gives entries their effect: those that follow the last ones, at most
	// logPage.
	fold(ctx context.Context, entries []domain.Entry) error

	// freeze ends the first fold. The key of every row that changes from here on
	// is dirty.
	freeze()

	expectedRows
	dirtyKeys
	storeSummary
}

// expectedRows are what the read tables are compared with.
type expectedRows interface {
	// list begins a listing of a table's keys.
	list(t *table.Table) lister

	// expected calls visit for each of the keys, in their order, with the values
	// of its row, which are valid until visit returns: nil when there must be no
	// such row.
	expected(ctx context.Context, t *table.Table, keys []table.Key, visit func(i int, values []string) error) error
}

// dirtyKeys are the keys of rows that a repair must look at.
type dirtyKeys interface {
	markDirty(ctx context.Context, t *table.Table, k table.Key) error

	// dirty calls each with a table's dirty keys in order, a page at a time.
	dirty(ctx context.Context, t *table.Table, each func([]table.Key) error) error
}

type storeSummary interface {
	count(ctx context.Context) (rows int64, err error)
	newest(ctx context.Context) (position int64, err error) // of the last entry that any row shows
	close(ctx context.Context)
}

// lister calls each with the keys after one, through another (nil: all), in
// order and a page at a time. It may list rows that have been deleted since it
// was made. Each may keep and change the slice that it gets.
type lister func(ctx context.Context, after table.Key, through *table.Key, each func([]table.Key) error) error

// applyFunc gives one entry its effect; see projections.Rules.
type applyFunc func(*domain.State, *domain.Entry)
