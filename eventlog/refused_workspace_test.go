package eventlog_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// TestRefusedAppendMakesNoWorkspace: a workspace is made by its first entry, but not
// by a refused one.
func TestRefusedAppendMakesNoWorkspace(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ahead := func(w string) domain.Draft { return at(client(t, w, "ahead", "n"), noon.Add(time.Hour)) }
	calls := map[string]func() error{
		"single": func() error { _, err := b.log.Append(t.Context(), ahead("single")); return err },
		"batch": func() error {
			_, err := b.log.Append(t.Context(), client(t, "batch", "a", "n"), ahead("batch"))
			return err
		},
		"conflict": func() error {
			if _, done := b.appendIf(t, 3, client(t, "conflict", "a", "n")); !done {
				return errors.New("another position was expected")
			}
			return nil
		},
		"transaction": func() error {
			tx := b.begin(t)
			_, err := b.log.AppendTx(t.Context(), tx, ahead("transaction"))
			return errors.Join(err, tx.Commit(t.Context()))
		},
	}
	for name, call := range calls {
		if err := call(); err == nil {
			t.Errorf("%s: taken", name)
		}
		var unknown *domain.UnknownWorkspaceError
		if _, err := b.log.Head(t.Context(), name); !errors.As(err, &unknown) {
			t.Errorf("%s: the workspace is there (%v)", name, err)
		}
		b.append(t, client(t, name, "a", "n"))
		b.soundLog(t, name)
	}
}

// TestFirstAppendsRace: refused entries do not affect others that are a workspace's
// first at the same time.
func TestFirstAppendsRace(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for round := range 10 {
		w := fmt.Sprint("w", round)
		var group sync.WaitGroup
		for i := range 8 {
			d := client(t, w, fmt.Sprint("e", i), "n")
			if i%2 == 0 {
				d = at(d, noon.Add(time.Hour))
			}
			group.Go(func() {
				// Two entries are not batched with others, so the calls race in the database.
				_, err := b.log.Append(t.Context(), d, d)
				if (err != nil) != (i%2 == 0) {
					t.Errorf("%s/%s: %v", w, d.ID, err)
				}
			})
		}
		group.Wait()
		if n := len(b.soundLog(t, w)); n != 4 {
			t.Errorf("%s: %d entries", w, n)
		}
	}
}
