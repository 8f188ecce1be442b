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
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

// forgottenResult is what append --forgotten prints.
type forgottenResult struct {
	Forgotten int               `json:"forgotten"`       // people who had come back with the backup
	Skipped   int               `json:"skipped"`         // people who are forgotten in this log already
	Elsewhere int               `json:"other_workspace"` // lines of workspaces that this log does not have, or that have moved away
	People    []forgottenPerson `json:"people"`          // who had come back
}

type forgottenPerson struct {
	WorkspaceID string `json:"workspace_id"`
	Kind        string `json:"kind"` // client or contractor
	ID          string `json:"id"`
}

// listedPerson has the lines of the list that forget one person.
type listedPerson struct {
	forgottenPerson
	lines []numbered
}

// runForgotten forgets again who is in the list that person forget keeps, after an older backup was
// restored. The entries keep their ids, so that the list can be applied again. A person who cannot be
// forgotten stops no other.
func (f *appendFlags) runForgotten(ctx context.Context, env *operate.Env, files []string) error {
	sources, closeAll, err := openSources(files, env.In)
	if err != nil {
		return err
	}
	defer closeAll()
	report := &lineReport{out: env.ErrOut}
	people, err := readForgotten(ctx, sources, report)
	if err != nil {
		return err
	}
	return env.WithDeps(ctx, func(d *operate.Deps) error {
		r := forgottenResult{People: []forgottenPerson{}}
		for _, p := range people {
			if err := r.add(ctx, d.Log, p); err != nil {
				report.add(&p.lines[len(p.lines)-1], err)
			}
			if err := context.Cause(ctx); err != nil {
				return err
			}
		}
		err := env.Print(r, r.text)
		if report.lines > 0 {
			err = errors.Join(err, fmt.Errorf("%s could not be applied%s", texts.Count(report.lines, "line", "lines"), report.shown()))
		}
		return err
	})
}

// readForgotten reads the list, person by person.
func readForgotten(ctx context.Context, sources []*source, report *lineReport) (people []*listedPerson, err error) {
	known := map[forgottenPerson]*listedPerson{}
	for _, s := range sources {
		if err := s.each(ctx, func(number int, line []byte, err error) error {
			n := numbered{source: s.name, number: number}
			var subject eventlog.Subject
			if err == nil {
				n.draft, subject, err = eventlog.DecodeForgotten(line)
			}
			if err != nil {
				report.add(&n, err)
				return nil
			}
			who := forgottenPerson{n.draft.WorkspaceID, subject.Kind, subject.ID}
			if known[who] == nil {
				known[who] = &listedPerson{forgottenPerson: who}
				people = append(people, known[who])
			}
			known[who].lines = append(known[who].lines, n)
			return nil
		}); err != nil {
			return nil, err
		}
	}
	return people, nil
}

// add forgets a person again.
func (r *forgottenResult) add(ctx context.Context, log *eventlog.Log, p *listedPerson) error {
	unknown, err := log.Unknown(ctx, p.WorkspaceID)
	if err != nil {
		return err
	}
	if len(unknown) > 0 {
		r.Elsewhere += len(p.lines)
		return nil
	}
	if err := p.checkNewer(ctx, log); err != nil {
		return err
	}
	drafts := make([]domain.Draft, len(p.lines))
	for i := range p.lines {
		drafts[i] = p.lines[i].draft
		drafts[i].CreatedAt = time.Time{} // now: the restored log may have newer entries
	}
	receipts, err := log.Append(ctx, drafts...)
	if moved, ok := errors.AsType[*eventlog.MovedError](err); ok && moved.Away {
		r.Elsewhere += len(p.lines)
		return nil
	}
	if err != nil {
		return err
	}
	for i := range receipts {
		if !receipts[i].Skipped {
			r.Forgotten++
			r.People = append(r.People, p.forgottenPerson)
			return nil
		}
	}
	r.Skipped++
	return nil
}

// checkNewer refuses to forget a person of whom the log has values that are newer than every line.
func (p *listedPerson) checkNewer(ctx context.Context, log *eventlog.Log) error {
	var (
		newest time.Time
		held   int64 // position of the last line's entry, once the log has the entries of all lines
	)
	for i := range p.lines {
		d := &p.lines[i].draft
		position, err := log.PositionOf(ctx, d.WorkspaceID, d.ID)
		if err != nil {
			return err
		}
		if i == 0 || held > 0 && position > 0 {
			held = max(held, position)
		} else {
			held = 0
		}
		if d.CreatedAt.After(newest) {
			newest = d.CreatedAt
		}
	}
	// Once the log has the entries, a producer may have offered an older value again after them.
	return log.WalkSubject(ctx, p.WorkspaceID, eventlog.Subject{Kind: p.Kind, ID: p.ID}, func(e *domain.Entry) error {
		if held == 0 && e.CreatedAt.After(newest) || held > 0 && e.Position > held {
			return fmt.Errorf("the %s %s of %s has newer values, such as those of position %d: forget it with ledgerfeed person forget if they are to go as well", p.Kind, p.ID, p.WorkspaceID, e.Position)
		}
		return nil
	})
}

func (r *forgottenResult) text(out io.Writer) error {
	_, err := fmt.Fprintf(out, "forgot %s again; %d forgotten already\n", texts.Count(r.Forgotten, "person", "people"), r.Skipped)
	for _, p := range r.People {
		if err == nil {
			_, err = fmt.Fprintf(out, "forgotten again: the %s %s of %s\n", p.Kind, p.ID, p.WorkspaceID)
		}
	}
	if err == nil && r.Elsewhere > 0 {
		_, err = fmt.Fprintf(out, "the workspaces of %s are not in this log\n", texts.Count(r.Elsewhere, "line", "lines"))
	}
	if err == nil && r.Forgotten > 0 {
		_, err = fmt.Fprintln(out, "a serving process with the role project now changes the rows and deletes the values")
	}
	return err
}
