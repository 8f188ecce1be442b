package delivery

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// buffer may be written to and read side by side.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) lines() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Split(strings.TrimSpace(b.b.String()), "\n")
}

func TestListenerShowsDeliveries(t *testing.T) {
	t.Parallel()
	for _, asJSON := range []bool{false, true} {
		t.Run(fmt.Sprint("json ", asJSON), func(t *testing.T) {
			t.Parallel()
			var (
				out    buffer
				mu     sync.Mutex
				secret = "whsec_none yet"
			)
			l := must(NewListener(t.Context(), ListenConfig{Addr: "127.0.0.1:0", Out: &out, JSON: asJSON, Secrets: func() []string {
				mu.Lock()
				defer mu.Unlock()
				return []string{secret}
			}}))(t)
			ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
			done := make(chan error, 1)
			go func() { done <- l.Serve(ctx) }()
			t.Cleanup(func() {
				stop()
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
			ca := filepath.Join(t.TempDir(), "ca.pem")
			if err := os.WriteFile(ca, l.Certificate(), 0o600); err != nil {
				t.Fatal(err)
			}
			b := setup(t, Settings{CAFile: ca, Schedule: Schedule{}})
			w := must(b.store.Create(t.Context(), workspace, l.URL(), []string{"all"}))(t)
			b.engine()
			b.append("invoice.reversed", 1)
			b.states(w.ID, Failed)
			mu.Lock()
			secret = w.Secret
			mu.Unlock()
			b.append("invoice.reversed", 1)
			d := b.states(w.ID, Succeeded, Failed)
			must(b.store.Resend(t.Context(), d[0].ID))(t)
			b.states(w.ID, Succeeded, Failed)
			lines := out.lines()
			if len(lines) != 3 {
				t.Fatalf("printed %q", lines)
			}
			if !asJSON {
				for i, want := range []string{"REFUSED  no signature matches", "signed   invoice.reversed  invoice \"inv_1\"  " + d[0].EventID, "(again)"} {
					if !strings.Contains(lines[i], want) {
						t.Errorf("line %q does not say %q", lines[i], want)
					}
				}
				return
			}
			var got [3]Arrival
			for i := range got {
				var known struct {
					Arrival
					At time.Time `json:"at"`
				}
				if err := json.Unmarshal([]byte(lines[i]), &known); err != nil {
					t.Fatal(err)
				}
				got[i] = known.Arrival
			}
			if got[0].Signature != "wrong" || got[1].Signature != "right" || got[1].DeliveryID != d[0].ID || !got[2].Repeat || got[1].Repeat {
				t.Errorf("printed %q", lines)
			}
		})
	}
}
