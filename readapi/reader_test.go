package readapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// TestAReaderAnswersAsTheAPI compares what a Reader reads with what the API answers keys of
// the same permissions, also for what they may not see, and for other workspaces.
func TestAReaderAnswersAsTheAPI(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.append(objects("acme")...)
	s.append(history(t, "beta", 3, s.clock.Now(), 24*time.Hour, 60)...)
	s.append(`{"workspace_id":"acme","type":"charge.created","data":{"charge_id":"own","client_id":"cl_1","date":"2026-10-01","category":"c","kind":"k","billed_to_client":false,"amount":"1.00","currency":"EUR","period":"2026-10"}}`)
	s.project("acme", 0)
	s.project("beta", 0)
	cfg, recorded, lines := s.config, &requestList{}, &testkit.Buffer{}
	cfg.Requests, cfg.Logger = recorded, lines.Logger()
	reader := testkit.Must(readapi.NewReader(cfg))(t)
	compared := map[int]int{}
	asked := append(s.singles("acme", "beta"), single{path: "/v1/charges/own"}, single{path: "/v1/clients/cl_1/credit"}, single{path: "/v1/invoices?limit=2"}, single{path: "/v1/none"})
	for _, permissions := range [][]access.Permission{
		allPermissions(), without(access.PayRead, access.MarginRead), without(access.MarginRead), {access.EventsRead},
	} {
		for _, workspace := range []string{"acme", "beta"} {
			key := s.key(workspace, permissions...)
			for _, one := range asked {
				read := testkit.Must(reader.Get(t.Context(), readapi.Ask{WorkspaceID: workspace, Permissions: access.PermissionsOf(permissions...), Path: one.path}))(t)
				answered := s.get(one.path, key)
				compared[read.Status]++
				if read.Status != answered.status || read.Status == http.StatusOK && !bytes.Equal(read.Body, answered.body) {
					t.Errorf("%s of %s with %s: the Reader reads %d %s, the API answers %d %s", one.path, workspace, permissions, read.Status, read.Body, answered.status, answered.body)
				}
			}
		}
	}
	for _, status := range []int{http.StatusOK, http.StatusForbidden, http.StatusNotFound} {
		if compared[status] < 10 {
			t.Errorf("%d answers have status %d", compared[status], status)
		}
	}
	if len(recorded.all()) > 0 || lines.String() != "" {
		t.Errorf("reads were recorded: %v\n%s", recorded.all(), lines)
	}
}

// TestAReaderTellsWhatWasRemoved: in the place of a row that has left, a Reader gives what
// the list with include=removed has, and nothing to a key that never saw the row.
func TestAReaderTellsWhatWasRemoved(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.workspace("acme")
	for id, billed := range map[string]bool{"billed": true, "own": false} {
		s.append(fmt.Sprintf(`{"workspace_id":"acme","type":"charge.created","data":{"charge_id":%q,"client_id":"c1","date":"2026-10-01","category":"c","kind":"k","billed_to_client":%v,"amount":"1.00","currency":"EUR","period":"2026-10"}}`, id, billed))
		s.append(fmt.Sprintf(`{"workspace_id":"acme","type":"charge.deleted","data":{"charge_id":%q}}`, id))
	}
	s.project("acme", 0)
	reader := testkit.Must(readapi.NewReader(s.config))(t)
	for _, permissions := range [][]access.Permission{allPermissions(), without(access.PayRead, access.MarginRead)} {
		listed := map[string]string{}
		for _, row := range s.page("/v1/charges?include=removed", s.key("acme", permissions...)).Data {
			listed[testkit.Must(decodeID(row))(t)] = string(row)
		}
		for _, id := range []string{"billed", "own", "none"} {
			read := testkit.Must(reader.Get(t.Context(), readapi.Ask{WorkspaceID: "acme", Permissions: access.PermissionsOf(permissions...), Path: "/v1/charges/" + id}))(t)
			if read.Status != http.StatusNotFound || string(read.Removed) != listed[id] {
				t.Errorf("%s with %s: %d, removed %s, want %s", id, permissions, read.Status, read.Removed, listed[id])
			}
		}
	}
}

// TestAReaderGivesUp: a table that is locked makes a Reader say so within its time: the lock
// is held until it has.
func TestAReaderGivesUp(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.append(objects("acme")...)
	s.project("acme", 0)
	cfg := s.config
	cfg.Timeout = 100 * time.Millisecond
	reader := testkit.Must(readapi.NewReader(cfg))(t)
	tx := testkit.Must(s.pool.Begin(t.Context()))(t)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	testkit.Must(tx.Exec(t.Context(), `LOCK TABLE charge IN ACCESS EXCLUSIVE MODE`))(t)
	read := testkit.Must(reader.Get(t.Context(), readapi.Ask{WorkspaceID: "acme", Permissions: access.PermissionsOf(allPermissions()...), Path: "/v1/charges/ch_1"}))(t)
	var problem struct {
		Status int `json:"status"`
	}
	if err := json.Unmarshal(read.Body, &problem); err != nil || read.Status != http.StatusServiceUnavailable || problem.Status != read.Status {
		t.Errorf("%d %s %v", read.Status, read.Body, err)
	}
}
