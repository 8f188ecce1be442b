package client

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	// idleWait is how long the API is asked to hold its answer while nothing is new.
	idleWait = 25 * time.Second
	// unheldWait is the pause if it does not hold its answer.
	unheldWait = 4 * time.Second
)

// State keeps the place of one follower of one list with the same parameters.
type State interface {
	// Load returns the cursor that was saved last; empty: the follower begins at the start.
	Load(ctx context.Context) (cursor string, err error)
	// Save keeps a cursor. It is called after the body of the loop has taken a page over.
	Save(ctx context.Context, cursor string) error
}

// FileState keeps the place in the file of this name, which it replaces as a whole.
type FileState string

// Load reads the file. Without a file, the follower begins at the start.
func (f FileState) Load(context.Context) (string, error) {
	text, err := os.ReadFile(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(text)), err
}

// Save replaces the file.
func (f FileState) Save(_ context.Context, cursor string) error {
	file, err := os.CreateTemp(filepath.Dir(string(f)), filepath.Base(string(f))+".*")
	if err != nil {
		return err
	}
	_, err = file.WriteString(cursor + "\n")
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), string(f)) // after a power cut the old place may be back, which is safe
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return nil
}

// LoadOnly is a State for a caller who saves Page.Cursor himself, in the transaction in which he
// saves the rows.
type LoadOnly func(ctx context.Context) (cursor string, err error)

// Load calls the function.
func (f LoadOnly) Load(ctx context.Context) (string, error) { return f(ctx) }

// Save does nothing.
func (LoadOnly) Save(context.Context, string) error { return nil }

// FollowOptions say how a follower goes on.
type FollowOptions struct {
	// StartAgain begins at the start of the list if the API no longer knows what the follower has
	// missed: after cursor_reset (the service was restored to an earlier state), cursor_permissions
	// (the new key sees more) or events_missed (the events are no longer kept). So does
	// cursor_invalid of the cursor that the State had: the workspace is at another installation, or
	// the parameters are others. The next page then has Restarted. Otherwise the follower ends with
	// that *Error.
	StartAgain bool

	// Once ends the follower when there is nothing more, for a program that runs now and then.
	Once bool
}

// follow reads what is new in a list, page after page, and waits when there is nothing.
func follow[T any](ctx context.Context, c *Client, path string, query url.Values, state State, o FollowOptions) iter.Seq2[*Page[T], error] {
	return func(yield func(*Page[T], error) bool) {
		cursor, err := state.Load(ctx)
		if err != nil {
			yield(nil, fmt.Errorf("load the place in %s: %w", path, err))
			return
		}
		var (
			kept      = true        // the cursor is the one that the state had
			wait      time.Duration // zero until the end is reached
			restarted *Error
		)
		for {
			p, err := readPage[T](ctx, c, path, query, cursor, wait)
			if lost := lostPlace(err, kept); lost != nil && o.StartAgain && cursor != "" {
				c.cfg.Logger.WarnContext(ctx, "a follower begins again at the start of its list", "list", path, "reason", lost)
				cursor, wait, restarted = "", 0, lost
				continue
			}
			if err != nil {
				yield(nil, err)
				return
			}
			p.Restarted, restarted, kept = restarted, nil, false
			if !yield(p, nil) {
				return
			}
			if p.Cursor != cursor {
				if err := state.Save(ctx, p.Cursor); err != nil {
					yield(nil, fmt.Errorf("save the place in %s: %w", path, err))
					return
				}
			}
			cursor = p.Cursor
			if o.Once && !p.More {
				return
			}
			if err := c.rest(ctx, wait > 0 && !p.More && !p.held); err != nil {
				yield(nil, fmt.Errorf("%s: %w", path, err))
				return
			}
			wait = 0
			if !p.More {
				wait = idleWait
			}
		}
	}
}

// rest pauses if the API has not held its answer, because too many requests wait already.
func (c *Client) rest(ctx context.Context, needed bool) error {
	if !needed {
		return nil
	}
	return c.cfg.Sleep(ctx, unheldWait/2+time.Duration(c.cfg.Random()*float64(unheldWait)))
}

// lostPlace returns the *Error that says that a cursor cannot go on, but a new start can. An invalid
// cursor that this follower was given is a mistake; one that was kept may be of another installation.
func lostPlace(err error, kept bool) *Error {
	e, _ := errors.AsType[*Error](err)
	switch CodeOf(err) { //nolint:exhaustive // the other codes are not about a lost place
	case CodeCursorReset, CodeCursorPermissions, CodeEventsMissed:
		return e
	case CodeCursorInvalid:
		if kept {
			return e
		}
	}
	return nil
}
