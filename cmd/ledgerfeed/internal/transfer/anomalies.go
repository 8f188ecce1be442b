package transfer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/projections/anomaly"
)

const (
	// awaitTimeout is how long --wait waits.
	awaitTimeout = time.Minute
	// moment is how long append waits for the read models without --wait. Where
	// nothing projects, every run takes as much longer.
	moment = 300 * time.Millisecond
)

// mayWait fails, before anything is appended, where --wait is given and the account
// may not read how far the read models are, as a producer's may not.
func (f *appendFlags) mayWait(ctx context.Context, d *cli.Deps) error {
	if !f.wait {
		return nil
	}
	const none = "-" // which rows are read does not matter
	_, err := eventlog.ReadProgress(ctx, d.Pool, eventlog.ReadModels, none)
	if err == nil {
		_, err = anomaly.NewStore(d.Pool, nil).CountEntries(ctx, nil)
	}
	if pg.Forbidden(err) {
		return errors.New("nothing was appended: --wait reads how far the read models are, and this account of PostgreSQL may not. " +
			"Append without --wait, or give the account the role ledgerfeed_auditor as well")
	}
	return err
}

// countAnomalies waits until the read models have the entries, counts the anomalies
// among them into r, and returns a line that says how to see them where they are not
// known yet.
func (f *appendFlags) countAnomalies(ctx context.Context, env *cli.Env, d *cli.Deps, r *appendResult) (hint string, err error) {
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
	if err = d.AwaitPositions(ctx, r.Positions, timeout); err == nil {
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
		return fmt.Sprintf("which of them are anomalies is not known here, as this account of PostgreSQL may not read it; %s says it\n", r.listCommand()), nil
	}
	return fmt.Sprintf("not projected yet; then %s says which of them are anomalies\n", r.listCommand()), nil
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

// countBatch is how many spans are counted with one statement.
const countBatch = 1000

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
