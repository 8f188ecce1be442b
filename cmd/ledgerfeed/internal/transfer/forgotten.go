package transfer

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/plural"
)

// forgottenResult is what append --forgotten prints.
type forgottenResult struct {
	Forgotten int `json:"forgotten"`          // who had come back with the backup
	Skipped   int `json:"skipped"`            // who are forgotten in this log already
	Unknown   int `json:"unknown_workspaces"` // lines of workspaces that this log does not have
}

// runForgotten forgets again who is in the list that person forget keeps, after an older backup was
// restored. The entries keep their ids, so that the list can be applied again.
func (f *appendFlags) runForgotten(ctx context.Context, env *cli.Env, files []string) error {
	sources, closeAll, err := openSources(files, env.In)
	if err != nil {
		return err
	}
	defer closeAll()
	return env.WithDeps(ctx, func(d *cli.Deps) error {
		var r forgottenResult
		for _, s := range sources {
			if err := s.each(ctx, func(number int, line []byte, err error) error {
				if err == nil {
					err = r.add(ctx, d.Log, line)
				}
				if err != nil {
					return fmt.Errorf("%s, line %d: %w", s.name, number, err)
				}
				return nil
			}); err != nil {
				return err
			}
		}
		return env.Print(r, r.text)
	})
}

func (r *forgottenResult) add(ctx context.Context, log *eventlog.Log, line []byte) error {
	d, err := domain.DecodeDraft(line)
	if err != nil {
		return err
	}
	if d.Type != domain.TypeClientForgotten && d.Type != domain.TypeContractorForgotten || d.ID == "" {
		return fmt.Errorf("the line is not of the list that ledgerfeed person forget keeps: want entries %s and %s, with their ids", domain.TypeClientForgotten, domain.TypeContractorForgotten)
	}
	unknown, err := log.Unknown(ctx, d.WorkspaceID)
	if err != nil {
		return err
	}
	if len(unknown) > 0 {
		r.Unknown++
		return nil
	}
	d.CreatedAt = time.Time{} // now: the restored log may have newer entries
	receipts, err := log.Append(ctx, d)
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
	if err == nil && r.Unknown > 0 {
		_, err = fmt.Fprintf(out, "this log does not have the workspaces of %s\n", plural.Of(r.Unknown, "line", "lines"))
	}
	if err == nil && r.Forgotten > 0 {
		_, err = fmt.Fprintln(out, "a serving process with the role project now changes the rows and deletes the values")
	}
	return err
}
