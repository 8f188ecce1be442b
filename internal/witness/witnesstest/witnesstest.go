// Package witnesstest runs the witness of transparency-dev for tests, because it is independent of
// our own code.
package witnesstest

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	formats "github.com/transparency-dev/formats/note"
	theirs "github.com/transparency-dev/witness/witness"
	"golang.org/x/mod/sumdb/note"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/internal/witness"
)

// Witness cosigns the checkpoints of logs that it knows. It keeps in memory what it has
// cosigned.
type Witness struct {
	VerifierKey string
	Key         *witness.Verifier

	http.Handler

	mu     sync.Mutex
	logs   map[string]note.Verifier // by origin
	newest map[string][]byte        // what it cosigned last, by origin
}

// New makes a witness that knows no log yet.
func New(t testing.TB, name string) *Witness {
	t.Helper()
	w := &Witness{logs: map[string]note.Verifier{}, newest: map[string][]byte{}}
	secret, public, err := note.GenerateKey(nil, name)
	if err != nil {
		t.Fatal(err)
	}
	w.VerifierKey = testkit.Must(formats.VKeyToCosignatureV1(public))(t)
	w.Key = testkit.Must(witness.ParseVerifier(w.VerifierKey))(t)
	signer := testkit.Must(formats.NewSignerForCosignatureV1(secret))(t)
	made := testkit.Must(theirs.New(t.Context(), theirs.Opts{Persistence: w, Signers: []note.Signer{signer}, VerifierForLog: w.verifier}))(t)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /add-checkpoint", theirs.NewHTTPHandler(made).AddCheckpoint)
	w.Handler = mux
	return w
}

// Know makes the witness cosign the logs of these verifier keys. A key's name is the origin of its
// log.
func (w *Witness) Know(t testing.TB, verifierKeys ...string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, text := range verifierKeys {
		key := testkit.Must(note.NewVerifier(text))(t)
		w.logs[key.Name()] = key
	}
}

// Listen answers at an address until stop is called or the test ends.
func (w *Witness) Listen(t testing.TB, address string) (bound string, stop func()) {
	t.Helper()
	server := httptest.NewUnstartedServer(w)
	_ = server.Listener.Close()
	server.Listener = testkit.Must((&net.ListenConfig{}).Listen(t.Context(), "tcp", address))(t)
	server.Start()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String(), server.Close
}

func (w *Witness) verifier(_ context.Context, origin string) (note.Verifier, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key, known := w.logs[origin]
	return key, known, nil
}

// Init implements persistence.LogStatePersistence, as Latest and Update do.
func (w *Witness) Init(context.Context) error { return nil }

// Latest is what the witness cosigned last.
func (w *Witness) Latest(_ context.Context, origin string) ([]byte, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.newest[origin], nil
}

// Update replaces what the witness cosigned last.
func (w *Witness) Update(_ context.Context, origin string, change func([]byte) ([]byte, error)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	changed, err := change(w.newest[origin])
	if err == nil {
		w.newest[origin] = changed
	}
	return err
}
