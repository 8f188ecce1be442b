package transfer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/operate"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/service"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
	"github.com/ledgerfeed/ledgerfeed/projections/anomaly"
)

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
		_, err = fmt.Fprintf(w, "%d of them %s: %s\n", *r.Anomalies, texts.Plural(*r.Anomalies, "is an anomaly", "are anomalies"), r.listCommand())
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

// maxCreated is how many new workspaces are named one by one; a restored export may
// have any number of them.
const maxCreated = 10

// newWorkspaces says which workspaces are new, because a mistyped workspace_id makes
// one that nothing removes again. Nil says nothing.
type newWorkspaces struct {
	pool   pg.DB
	errOut io.Writer

	forbidden bool // the account may not read workspaces, as a producer's may not
	named     int
}

// absent returns the workspaces of the drafts that do not exist yet, except known ones. It
// reports no failure, because the append meets the same one.
func (n *newWorkspaces) absent(ctx context.Context, drafts []domain.Draft, known map[string]int64) map[string]bool {
	asked := map[string]bool{}
	if n == nil || n.forbidden {
		return asked
	}
	var ids []string
	for i := range drafts {
		w := drafts[i].WorkspaceID
		if _, there := known[w]; !there && !asked[w] {
			asked[w] = true
			ids = append(ids, w)
		}
	}
	if len(ids) == 0 {
		return asked
	}
	ids, err := pg.Collect(ctx, n.pool, pgx.RowTo[string], `SELECT workspace_id FROM workspace WHERE workspace_id = ANY($1)`, ids)
	if err != nil {
		n.forbidden = pg.Forbidden(err)
		return map[string]bool{}
	}
	for _, w := range ids {
		delete(asked, w)
	}
	return asked
}

// note names the workspace of an entry that was appended, if it is its first one and the
// workspace was absent before.
func (n *newWorkspaces) note(r eventlog.Receipt, workspaceID string, absent map[string]bool) {
	if n == nil || r.Position != 1 || r.Skipped || !absent[workspaceID] && !n.forbidden {
		return
	}
	switch n.named++; {
	case n.named > maxCreated+1:
	case n.named > maxCreated:
		fmt.Fprintln(n.errOut, "more workspaces are new: ledgerfeed workspace list")
	case n.forbidden:
		fmt.Fprintf(n.errOut, "%s had no entries before: if workspace_id is mistyped, this made a workspace\n", workspaceID)
	default:
		fmt.Fprintf(n.errOut, "created the workspace %s, which did not exist\n", workspaceID)
	}
}

// countAnomalies waits until the read models have the entries, counts the anomalies
// among them into r, and returns a line that says how to see them where they are not
// known yet.
func (f *appendFlags) countAnomalies(ctx context.Context, env *operate.Env, d *operate.Deps, r *appendResult) (hint string, err error) {
	defer r.spans.close()
	if len(r.Positions) == 0 || r.Appended == 0 && !f.wait {
		return "", nil
	}
	d.Notify(ctx)
	timeout := moment
	if f.wait {
		if timeout = time.Duration(f.timeout); timeout == 0 {
			timeout = awaitTimeout
		}
	}
	if err = d.AwaitPositions(ctx, r.Positions, timeout, service.NoProjector); err == nil {
		var n int64
		if n, err = r.spans.count(ctx, anomaly.NewStore(d.Pool, env.Clock)); err == nil {
			r.Anomalies = &n
			return "", nil
		}
	}
	switch {
	case f.wait:
		return "", fmt.Errorf("the entries are in the log, but the read models do not have them: %w", err)
	case pg.Forbidden(err):
		return fmt.Sprintf("this account of PostgreSQL may not read which of them are anomalies; with an account that may, %s lists them\n", r.listCommand()), nil
	}
	return fmt.Sprintf("not projected yet: %s says later which of them are anomalies\n", r.listCommand()), nil
}

// spans are the positions of entries in the order in which they were appended. Those
// that follow on each other in the log take no memory; the rest is kept in a file.
type spans struct {
	last map[string]anomaly.Span // of each workspace, which may grow
	file *os.File
	out  *bufio.Writer
	err  error // the first failure; the spans are not complete
}

// add adds an entry that was appended after the others.
func (s *spans) add(workspaceID string, position int64) {
	if s.last == nil {
		s.last = map[string]anomaly.Span{}
	}
	span, there := s.last[workspaceID]
	switch {
	case !there:
		span = anomaly.Span{WorkspaceID: workspaceID, First: position}
	case position != span.Last+1:
		s.write(&span)
		span.First = position
	}
	span.Last = position
	s.last[workspaceID] = span
}

func (s *spans) write(span *anomaly.Span) {
	if s.err == nil && s.file == nil {
		if s.file, s.err = os.CreateTemp("", "ledgerfeed-positions-*.txt"); s.err == nil {
			_ = os.Remove(s.file.Name()) // the file exists as long as it is open
			s.out = bufio.NewWriter(s.file)
		}
	}
	if s.err == nil {
		_, s.err = fmt.Fprintln(s.out, span.WorkspaceID, span.First, span.Last)
	}
}

// count counts the entries that are anomalies.
func (s *spans) count(ctx context.Context, store *anomaly.Store) (n int64, err error) {
	batch := make([]anomaly.Span, 0, countBatch)
	flush := func() error {
		counted, err := store.CountEntries(ctx, batch)
		n, batch = n+counted, batch[:0]
		return err
	}
	err = s.each(func(span anomaly.Span) error {
		if batch = append(batch, span); len(batch) < countBatch {
			return nil
		}
		return flush()
	})
	if err == nil {
		err = flush()
	}
	return n, err
}

// each calls do with every span.
func (s *spans) each(do func(anomaly.Span) error) error {
	if s.err == nil && s.file != nil {
		if s.err = s.out.Flush(); s.err == nil {
			_, s.err = s.file.Seek(0, io.SeekStart)
		}
	}
	if s.err != nil {
		return fmt.Errorf("cannot keep the positions of entries: %w", s.err)
	}
	if s.file != nil {
		in := bufio.NewReader(s.file)
		for {
			var span anomaly.Span
			_, err := fmt.Fscanln(in, &span.WorkspaceID, &span.First, &span.Last)
			if errors.Is(err, io.EOF) {
				break
			}
			if err == nil {
				err = do(span)
			}
			if err != nil {
				return err
			}
		}
	}
	for _, span := range s.last {
		if err := do(span); err != nil {
			return err
		}
	}
	return nil
}

func (s *spans) close() {
	if s.file != nil {
		_ = s.file.Close()
	}
}

// countBatch is how many spans are counted with one statement.
const countBatch = 1000
