package delivery_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/delivery/receiver"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

func TestListenerShowsDeliveries(t *testing.T) {
	t.Parallel()
	for _, asJSON := range []bool{false, true} {
		t.Run(fmt.Sprint("json ", asJSON), func(t *testing.T) {
			t.Parallel()
			var (
				out    testkit.Buffer
				mu     sync.Mutex
				secret = "whsec_none yet"
			)
			cert := testkit.Must(receiver.NewCertificate(time.Now()))(t)
			cfg := receiver.Config{Addr: "127.0.0.1:0", Out: &out, JSON: asJSON, Certificate: cert, Clock: time.Now, Secrets: func() []string {
				mu.Lock()
				defer mu.Unlock()
				return []string{secret}
			}}
			l := testkit.Must(receiver.New(t.Context(), cfg))(t)
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
			if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]}), 0o600); err != nil {
				t.Fatal(err)
			}
			b := setup(t, policy.Settings{CAFile: ca, Schedule: policy.Schedule{}})
			w := testkit.Must(b.store.Create(t.Context(), workspace, delivery.Definition{URL: l.URL(), Events: []string{"all"}}))(t)
			b.dispatcher()
			b.append("invoice.reversed", 1)
			b.states(w.ID, policy.Failed)
			mu.Lock()
			secret = w.Secret
			mu.Unlock()
			b.append("invoice.reversed", 1)
			d := b.states(w.ID, policy.Succeeded, policy.Failed)
			testkit.Must(b.store.Resend(t.Context(), d[0].ID))(t)
			b.states(w.ID, policy.Succeeded, policy.Failed)
			lines := out.Lines()
			if len(lines) != 3 {
				t.Fatalf("printed %q", lines)
			}
			if !asJSON {
				for i, want := range []string{"REFUSED  no signature matches", "signed   invoice.reversed  invoice \"inv_1\"  " + d[0].EventID + "  at 2", "  at 2  (again)"} {
					if !strings.Contains(lines[i], want) {
						t.Errorf("line %q does not say %q", lines[i], want)
					}
				}
				return
			}
			var got [3]receiver.Arrival
			for i := range got {
				var known struct {
					receiver.Arrival
					At time.Time `json:"at"`
				}
				if err := json.Unmarshal([]byte(lines[i]), &known); err != nil {
					t.Fatal(err)
				}
				got[i] = known.Arrival
			}
			if got[0].Signature != "wrong" || got[1].Signature != "right" || got[1].DeliveryID != d[0].ID || !got[2].Repeat || got[1].Repeat ||
				got[2].Position == nil || *got[2].Position != 2 {
				t.Errorf("printed %q", lines)
			}
		})
	}
}
