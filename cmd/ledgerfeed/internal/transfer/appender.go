package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/plural"
)

// appendBatch is how many lines are appended in one transaction: enough that its
// commit costs little a line, few enough that other producers wait only briefly.
const appendBatch = 500

// appendResult is what append prints.
type appendResult struct {
	Appended  int              `json:"appended"`
	Skipped   int              `json:"skipped"`             // the log had them already
	Positions map[string]int64 `json:"positions"`           // by workspace, of the last entry of the input
	Anomalies *int64           `json:"anomalies,omitempty"` // of the entries that were appended; nil: not known

	spans   spans // of the entries that were appended
	created *newWorkspaces
}

func newAppendResult(created *newWorkspaces) *appendResult {
	return &appendResult{Positions: map[string]int64{}, created: created}
}

func (r *appendResult) text(w io.Writer) error {
	_, err := fmt.Fprintf(w, "appended %d, skipped %d\n", r.Appended, r.Skipped)
	if err != nil || r.Anomalies == nil || r.Appended == 0 {
		return err
	}
	if *r.Anomalies == 0 {
		_, err = fmt.Fprintln(w, "none of them is an anomaly")
	} else {
		_, err = fmt.Fprintf(w, "%d of them %s: %s\n", *r.Anomalies, plural.Word(*r.Anomalies, "is an anomaly", "are anomalies"), r.listCommand())
	}
	return err
}

// listCommand is the command that lists the anomalies.
func (r *appendResult) listCommand() string {
	if len(r.Positions) == 1 {
		for w := range r.Positions {
			return "ledgerfeed anomaly list --workspace " + w
		}
	}
	return "ledgerfeed anomaly list"
}

// appender appends lines in batches.
type appender struct {
	log     *eventlog.Log
	restore bool
	ids     *idFile
	result  *appendResult
	meter   *meter

	batch []numbered
}

// numbered is a line of a source.
type numbered struct {
	source string
	number int
	draft  domain.Draft
	made   bool // the line has no id; that of the draft was made for it
}

func (n *numbered) String() string { return fmt.Sprintf("%s, line %d", n.source, n.number) }

func (a *appender) appendAll(ctx context.Context, sources []*source) error {
	for _, s := range sources {
		if err := s.each(ctx, func(number int, line []byte, err error) error {
			if err != nil {
				return fmt.Errorf("%s, line %d changed since it was checked: %w", s.name, number, err)
			}
			return a.add(ctx, s.name, number, line)
		}); err != nil {
			return errors.Join(a.flush(ctx), err)
		}
	}
	return a.flush(ctx)
}

func (a *appender) add(ctx context.Context, source string, number int, line []byte) error {
	d, err := domain.DecodeDraft(line)
	if err != nil {
		return fmt.Errorf("%s, line %d changed since it was checked: %w", source, number, err)
	}
	n := numbered{source: source, number: number, draft: d}
	if d.ID == "" {
		n.made = true
		if n.draft.ID, err = a.ids.next(line); err != nil {
			return fmt.Errorf("%v: %w", &n, err)
		}
	}
	a.batch = append(a.batch, n)
	if len(a.batch) < appendBatch {
		return nil
	}
	return a.flush(ctx)
}

// flush appends the batch. The ids that were given to its lines are on the disk
// before the log can have them.
func (a *appender) flush(ctx context.Context) error {
	batch := a.batch
	a.batch = nil
	if len(batch) == 0 {
		return nil
	}
	if err := a.ids.sync(); err != nil {
		return err
	}
	receipts, err := appendLines(ctx, a.log, a.restore, a.result, batch)
	a.meter.done.Add(int64(len(receipts)))
	if len(receipts) > 0 || err != nil && !certain(err) {
		a.ids.used = true
	}
	return err
}

// appendLines appends lines in one transaction, adds them to the result, and returns
// their receipts. When the log refuses one, the lines before it are appended.
func appendLines(ctx context.Context, log *eventlog.Log, restore bool, result *appendResult, batch []numbered) ([]eventlog.Receipt, error) {
	if len(batch) == 0 {
		return nil, nil
	}
	drafts := make([]domain.Draft, len(batch))
	for i := range batch {
		drafts[i] = batch[i].draft
	}
	absent := result.created.absent(ctx, drafts, result.Positions)
	var receipts []eventlog.Receipt
	var err error
	if restore {
		receipts, err = log.Restore(ctx, result.following(drafts), drafts...)
	} else {
		receipts, err = log.Append(ctx, drafts...)
	}
	if refused, ok := errors.AsType[*eventlog.RefusedError](err); ok {
		if batch[refused.Index].made {
			refused.ID = "" // it exists nowhere
		}
		reason := fmt.Errorf("%v: %w", &batch[refused.Index], err)
		receipts, err = appendLines(ctx, log, restore, result, batch[:refused.Index])
		return receipts, errors.Join(err, reason)
	}
	if err != nil {
		became := errUnknownOutcome
		if certain(err) {
			became = errNotAppended
		}
		return nil, fmt.Errorf("%v to %v %w: %w", &batch[0], &batch[len(batch)-1], became, err)
	}
	for i, r := range receipts {
		w := drafts[i].WorkspaceID
		if r.Skipped {
			result.Skipped++
		} else {
			result.Appended++
			result.spans.add(w, r.Position)
			result.created.note(r, w, absent)
		}
		result.Positions[w] = max(result.Positions[w], r.Position)
	}
	return receipts, nil
}

// What became of lines, for the error of their append.
var (
	errUnknownOutcome = errors.New("may or may not have been appended")
	errNotAppended    = errors.New("were not appended")
)

// certain reports whether nothing was appended. An unknown outcome of the lines before
// one that the log refused is joined with the refusal.
func certain(err error) bool {
	if errors.Is(err, errUnknownOutcome) {
		return false
	}
	_, diverged := errors.AsType[*eventlog.DivergedError](err)
	return diverged || eventlog.Certain(err)
}

// following gives, for the workspaces of drafts, the position after the last one
// that was restored.
func (r *appendResult) following(drafts []domain.Draft) map[string]int64 {
	next := map[string]int64{}
	for i := range drafts {
		w := drafts[i].WorkspaceID
		next[w] = r.Positions[w] + 1
	}
	return next
}
