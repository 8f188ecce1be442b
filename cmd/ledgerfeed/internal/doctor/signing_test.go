package doctor

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/proof"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestSigningKey: no key is a choice; one that the service does not show is an error.
func TestSigningKey(t *testing.T) {
	t.Parallel()
	const (
		key   = "PRIVATE+KEY+ledgerfeed+0b28140f+AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEB"
		older = "PRIVATE+KEY+ledgerfeed+593cbc6f+AQICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIC"
	)
	var shown string
	status := http.StatusOK
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/docs/keys.txt" {
			t.Errorf("asked for %s", r.URL)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte("# keys\n" + shown))
	}))
	t.Cleanup(service.Close)
	newPatient(t, "LEDGERFEED_BASE_URL="+service.URL).finds("signing key", OK, "nothing is signed")
	p := newPatient(t, "LEDGERFEED_BASE_URL="+service.URL, "LEDGERFEED_SIGNING_KEY="+key+","+older)
	p.finds("signing key", Error, "signs with keys that")
	keys := testkit.Must(proof.ReadKeys(p.env))(t)
	for i, k := range testkit.Must(keys.Verifiers(service.Listener.Addr().String()))(t) {
		shown += k + "\n"
		if i == 0 {
			p.finds("signing key", Error, "signs with keys that")
		}
	}
	p.finds("signing key", OK, "2, as ")
	status = http.StatusNotFound
	p.finds("signing key", OK, "could not be compared from here")
}
