//go:build full && unix

package readapi_test

import (
	"bytes"
	"net/http"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit/twonodes"
	"github.com/ledgerfeed/ledgerfeed/readapi"
)

// TestReadsGoToTheNodeOfTheirWorkspace: every endpoint, in every form, byte for byte what the
// node has, and 503 while it is away, when others are answered.
func TestReadsGoToTheNodeOfTheirWorkspace(t *testing.T) {
	t.Parallel()
	cluster := twonodes.Enter(t, testkit.Discard(), pg.Options{MaxConns: 8, ReadBuffer: readapi.ReadBuffer, Settings: readapi.PoolSettings(), CancelStatements: true})
	worker := newStandAt(t, cluster.At(cluster.Worker))
	s := newStandAt(t, cluster.At(cluster.Coordinator), func(c *readapi.Config) {
		c.Nodes = cluster.Pools
		c.WholeLists.Nodes = cluster.Open(t, pg.Options{MaxConns: 6, Settings: readapi.WholeListPoolSettings(time.Minute), CancelStatements: true})
	})
	// The keys of all workspaces are at both; what beta has is at the worker alone.
	testkit.AsOwner(t, s.pool, `SELECT workspace_create('beta', 'beta', now())`)
	s.append(objects("acme")...)
	s.project("acme", 0)
	worker.append(objects("beta")...)
	worker.project("beta", 0)
	acme, beta, atWorker := s.key("acme", allPermissions()...), s.key("beta", allPermissions()...), worker.key("beta", allPermissions()...)
	for path := range endpoints() {
		if path == "/v1/me" {
			continue // it is about the key
		}
		for _, accept := range []string{"application/json", "text/csv", "application/x-ndjson"} {
			want, got := worker.get(path, atWorker, "Accept", accept), s.get(path, beta, "Accept", accept)
			if got.status != http.StatusOK || !bytes.Equal(got.body, want.body) || got.header.Get("Log-Position") != want.header.Get("Log-Position") {
				t.Errorf("%s as %s: %d %.200s\nwant %.200s", path, accept, got.status, got.body, want.body)
			}
		}
	}
	cluster.Worker.Stop()
	if got := s.get("/v1/invoices?limit=7", beta); got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
		t.Errorf("while the node is away: %d %v", got.status, got.header)
	}
	if got := s.get("/v1/invoices?limit=7", acme); got.status != http.StatusOK {
		t.Errorf("while another node is away: %d %s", got.status, got.body)
	}
}
