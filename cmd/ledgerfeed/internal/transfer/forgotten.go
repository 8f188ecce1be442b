package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/operate"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/plural"
)

// forgottenResult is what append --forgotten prints.
type forgottenResult struct {
	Forgotten int `json:"forgotten"`       // who had come back with the backup
	Skipped   int `json:"skipped"`         // who are forgotten in this log already
	Elsewhere int `json:"other_workspace"` // lines of workspaces that this log does not have, or that have moved away
}

// runForgotten forgets again who is in the list that person forget keeps, after an older backup was
// restored. The entries keep their ids, so that the list can be applied again. A line that fails
// stops no other.
func (f *appendFlags) runForgotten(ctx context.Context, env *operate.Env, files []string) error {
	sources, closeAll, err := openSources(files, env.In)
	if err != nil {
		return err
	}
	defer closeAll()
	return env.WithDeps(ctx, func(d *operate.Deps) error {
		var r forgottenResult
		report := &lineReport{out: env.ErrOut}
		for _, s := range sources {
			if err := s.each(ctx, func(number int, line []byte, err error) error {
				if err == nil {
					err = r.add(ctx, d.Log, line)
				}
				if err != nil {
					report.add(&numbered{source: s.name, number: number}, err)
				}
				return context.Cause(ctx)
			}); err != nil {
				return err
			}
		}
		err := env.Print(r, r.text)
		if report.lines > 0 {
			err = errors.Join(err, fmt.Errorf("%s could not be applied%s", plural.Of(report.lines, "line", "lines"), report.shown()))
		}
		return err
	})
}

var errNotOfTheList = errors.New("the line is not of the list that ledgerfeed person forget keeps: want entries " +
	domain.TypeClientForgotten + " and " + domain.TypeContractorForgotten + ", with their ids and times")

func (r *forgottenResult) add(ctx context.Context, log *eventlog.Log, line []byte) error {
	d, err := domain.DecodeDraft(line)
	if err != nil {
		return err
	}
	e := d.Entry()
	kind, id := e.Object()
	if d.Type != domain.TypeClientForgotten && d.Type != domain.TypeContractorForgotten || d.ID == "" || d.CreatedAt.IsZero() {
		return errNotOfTheList
	}
	unknown, err := log.Unknown(ctx, d.WorkspaceID)
	if err != nil {
		return err
	}
	if len(unknown) > 0 {
		r.Elsewhere++
		return nil
	}
	held, err := log.PositionOf(ctx, d.WorkspaceID, d.ID)
	if err != nil {
		return err
	}
	// Once the log has the line's entry, a producer may have offered an older value again after it.
	if err := log.WalkSubject(ctx, d.WorkspaceID, eventlog.Subject{Kind: kind, ID: id}, func(e *domain.Entry) error {
		if held == 0 && e.CreatedAt.After(d.CreatedAt) || held > 0 && e.Position > held {
			return fmt.Errorf("the %s %s of %s has newer values, such as those of position %d: forget it with ledgerfeed person forget if they are to go as well", kind, id, d.WorkspaceID, e.Position)
		}
		return nil
	}); err != nil {
		return err
	}
	d.CreatedAt = time.Time{} // now: the restored log may have newer entries
	receipts, err := log.Append(ctx, d)
	if moved, ok := errors.AsType[*eventlog.MovedError](err); ok && moved.Away {
		r.Elsewhere++
		return nil
	}
	if err != nil {
		return err
	}
	if receipts[0].Skipped {
		r.Skipped++
	} else {
		r.Forgotten++
	}
	return nil
}

func (r *forgottenResult) text(out io.Writer) error {
	_, err := fmt.Fprintf(out, "forgot %s again; %d forgotten already\n", plural.Of(r.Forgotten, "person", "people"), r.Skipped)
	if err == nil && r.Elsewhere > 0 {
		_, err = fmt.Fprintf(out, "the workspaces of %s are not in this log\n", plural.Of(r.Elsewhere, "line", "lines"))
	}
	if err == nil && r.Forgotten > 0 {
		_, err = fmt.Fprintln(out, "a serving process with the role project now changes the rows and deletes the values")
	}
	return err
}
