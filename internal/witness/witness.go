package witness

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/ledgerfeed/ledgerfeed/internal/datadir"
)

// clockTolerance is how far the clock may be behind the last cosignature: it is set back a
// little now and then. Such a cosignature has the time of the one before. Beyond it the
// witness signs nothing, because it would say that an older tree was the newest later on.
const clockTolerance = time.Minute

// Config is what a Witness works with.
type Config struct {
	Dir    *datadir.Dir // of this witness alone; see Lock
	Key    *Key
	Logs   Logs
	Clock  func() time.Time
	Logger *slog.Logger
}

// Witness cosigns checkpoints. It is safe for concurrent use.
type Witness struct {
	dir    files
	key    *Key
	logs   Logs
	clock  func() time.Time
	logger *slog.Logger
	known  map[string]*entry // by origin; one for each log
	byHash map[string]string // origins, by their hash
}

// entry is what is known of a log.
type entry struct {
	mu   sync.Mutex // from the check of a checkpoint until it is kept
	last *record    // nil: nothing was cosigned yet
	// lasts is whether last is safely in its file. It is not known to be after the start,
	// nor after writing has failed; then the file is read and written again before anything
	// is said because of it.
	lasts bool
}

// New makes a Witness, and reads what it has cosigned. The error names a file that cannot be
// read, or is not what was signed.
func New(cfg Config) (*Witness, error) { return newWitness(cfg, cfg.Dir) }

func newWitness(cfg Config, dir files) (*Witness, error) {
	w := &Witness{dir: dir, key: cfg.Key, logs: cfg.Logs, clock: cfg.Clock, logger: cfg.Logger, known: map[string]*entry{}, byHash: map[string]string{}}
	for origin := range w.logs {
		e := &entry{}
		var err error
		if e.last, err = w.read(origin); err != nil {
			return nil, err
		}
		w.known[origin], w.byHash[originHash(origin)] = e, origin
	}
	return w, nil
}

func (w *Witness) read(origin string) (*record, error) {
	return readRecord(w.dir, origin, w.key.Verifier(), w.logs[origin])
}

// settle makes sure of what was cosigned last. The caller has the entry's lock.
func (w *Witness) settle(origin string, e *entry) error {
	if e.lasts {
		return nil
	}
	last, err := w.read(origin)
	if err != nil {
		return err
	}
	if last != nil {
		if err := w.dir.WriteFile(fileOf(origin), last.note); err != nil {
			return fmt.Errorf("keep what was cosigned for %s: %w", origin, err)
		}
	}
	e.last, e.lasts = last, true
	return nil
}

// AddCheckpoint cosigns the checkpoint of an add-checkpoint request, and returns the line of
// the signature. A RefusedError says why it does not; other errors are of the files.
func (w *Witness) AddCheckpoint(ctx context.Context, body []byte) (line string, err error) {
	r, err := parseRequest(body)
	if err != nil {
		return "", err
	}
	seen, err := w.logs.open(r.note)
	if err != nil {
		return "", err
	}
	if r.old > seen.Tree.N {
		return "", refuse(http.StatusBadRequest, "the old size is %d, and the checkpoint's is %d: want an old size that is not above it", r.old, seen.Tree.N)
	}
	e := w.known[seen.Origin]
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := w.settle(seen.Origin, e); err != nil {
		return "", err
	}
	if err := w.check(ctx, e.last, r, seen); err != nil {
		w.logger.DebugContext(ctx, "a checkpoint is not cosigned", "log", seen.Origin, "size", seen.Tree.N, "error", err)
		return "", err
	}
	if line, err = w.cosign(e, seen); err == nil {
		w.logger.InfoContext(ctx, "cosigned a checkpoint", "log", seen.Origin, "size", seen.Tree.N, "root", seen.Tree.Hash.String())
	}
	return line, err
}

// check holds a checkpoint against the last one.
func (w *Witness) check(ctx context.Context, last *record, r *request, seen *submitted) error {
	var known tlog.Tree
	if last != nil {
		known = last.tree
		if known.N == seen.Tree.N && known.Hash != seen.Tree.Hash {
			w.forked(ctx, last, r, seen)
		}
	}
	if r.old != known.N {
		return &RefusedError{Status: http.StatusConflict, Known: known.N, Sentence: fmt.Sprintf("the old size is %d, and the tree that was cosigned last is of size %d", r.old, known.N)}
	}
	empty, err := tlog.TreeHash(0, nil)
	if err != nil {
		return fmt.Errorf("the root of an empty tree: %w", err)
	}
	switch {
	case seen.Tree.N == 0 && seen.Tree.Hash != empty:
		return refuse(http.StatusUnprocessableEntity, "the tree is empty, and its root is not that of an empty tree")
	case r.old == 0 && len(r.proof) > 0:
		return refuse(http.StatusUnprocessableEntity, "the proof has %d lines: want none from size 0 on", len(r.proof))
	case r.old == 0:
		return nil
	}
	if tlog.CheckTree(r.proof, seen.Tree.N, seen.Tree.Hash, known.N, known.Hash) != nil {
		return refuse(http.StatusUnprocessableEntity, "the proof does not show that the tree of size %d with the root %s extends the tree of size %d with the root %s, which was cosigned last",
			seen.Tree.N, seen.Tree.Hash, known.N, known.Hash)
	}
	return nil
}

// forked keeps, and says, that a log has signed two trees of one size.
func (w *Witness) forked(ctx context.Context, last *record, r *request, seen *submitted) {
	file, fresh, err := keepEvidence(w.dir, seen.Origin, last, seen, r.note)
	switch {
	case err != nil:
		w.logger.ErrorContext(ctx, "the log has signed two trees of one size, and what proves it cannot be kept", "log", seen.Origin, "size", seen.Tree.N,
			"root", last.tree.Hash.String(), "other_root", seen.Tree.Hash.String(), "error", err)
	case fresh:
		w.logger.ErrorContext(ctx, "the log has signed two trees of one size; what proves it is kept", "log", seen.Origin, "size", seen.Tree.N,
			"root", last.tree.Hash.String(), "other_root", seen.Tree.Hash.String(), "file", file)
	}
}

// cosign keeps a checkpoint, and then returns the line of the cosignature. The caller has the
// entry's lock.
func (w *Witness) cosign(e *entry, seen *submitted) (line string, err error) {
	now := w.clock()
	at := now.Unix()
	if e.last != nil && at < e.last.at {
		if behind := time.Duration(e.last.at-at) * time.Second; behind > clockTolerance {
			return "", fmt.Errorf("the clock says %s, which is %v before the last cosignature for %s: nothing is cosigned until it has passed that", now.UTC().Format(time.RFC3339), behind, seen.Origin)
		}
		at = e.last.at
	}
	if at <= 0 {
		return "", fmt.Errorf("the clock says %s: want a time after 1970", now.UTC().Format(time.RFC3339))
	}
	signed, err := note.Sign(&note.Note{Text: seen.text, Sigs: seen.by}, cosigner{w.key, at})
	if err != nil {
		return "", fmt.Errorf("cosign a checkpoint: %w", err)
	}
	e.lasts = false // until it was written
	if err := w.dir.WriteFile(fileOf(seen.Origin), signed); err != nil {
		return "", fmt.Errorf("keep the checkpoint of %s: %w", seen.Origin, err)
	}
	e.last, e.lasts = &record{signed, seen.Tree, at}, true
	// The witness's signature is the last line.
	text := strings.TrimSuffix(string(signed), "\n")
	return text[strings.LastIndexByte(text, '\n')+1:] + "\n", nil
}

// Checkpoint is the last checkpoint that was cosigned for the log with the hash of an origin,
// with the signatures of both; nil: none.
func (w *Witness) Checkpoint(hash string) ([]byte, error) {
	origin, ok := w.byHash[hash]
	if !ok {
		return nil, nil
	}
	e := w.known[origin]
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := w.settle(origin, e); err != nil || e.last == nil {
		return nil, err
	}
	return e.last.note, nil
}
