// Package readapitest gives tests a running API with the log and read models behind it.
package readapitest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/brand"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/scenario"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/projections/projectionstest"
	"github.com/ledgerfeed/ledgerfeed/readapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// Service is a running API with the log, the read models and the keys of one workspace, acme.
type Service struct {
	*projectionstest.Bench

	t       testing.TB
	Address string
	Clock   *testkit.Clock // of the API
	Keys    *access.Store
}

// New makes a Service with an empty log.
func New(t testing.TB) *Service {
	t.Helper()
	s := &Service{Bench: projectionstest.New(t), t: t, Clock: testkit.RunningClock()}
	open := func(o pg.Options) *pg.Pool {
		o.CancelStatements, o.ReadBuffer = true, readapi.ReadBuffer
		pool := testkit.Must(pg.Open(t.Context(), s.URL, o))(t)
		t.Cleanup(pool.Close)
		return pool
	}
	pool := open(pg.Options{MaxConns: 8, Settings: readapi.PoolSettings()})
	lists := open(pg.Options{MaxConns: 4, Settings: readapi.WholeListPoolSettings(time.Minute)})
	format := access.NewFormat(brand.Brand{})
	s.Keys = testkit.Must(access.NewStore(access.StoreConfig{Pool: pool, Format: format, Clock: s.Clock.Now}))(t)
	api := testkit.Must(readapi.New(readapi.Config{
		Pool: pool, Feed: eventlog.NewFeed(pool), Notifier: s.Notifier, Format: format, Clock: s.Clock.Now, Logger: testkit.Discard(),
		Keys:    testkit.Must(access.NewDirectory(access.DirectoryConfig{Pool: pool, Format: format, Clock: s.Clock.Now}))(t),
		Limiter: testkit.Must(access.NewLimiter(access.LimiterConfig{Pool: pool, Clock: s.Clock.Now}))(t),
		BaseURL: "https://api.example.com", DocsURL: "https://docs.example.com", CursorKey: bytes.Repeat([]byte{7}, 32),
		WholeLists: readapi.WholeLists{Pool: lists, Timeout: 10 * time.Minute},
	}))(t)
	runs(t, api.Run)
	listener := testkit.Must((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	server := &httptest.Server{Listener: api.RewriteErrors(listener), Config: readapi.NewServer(api, testkit.Discard())}
	server.Start()
	t.Cleanup(server.Close)
	s.Address = server.URL
	return s
}

// runs runs something until the test ends.
func runs(t testing.TB, run func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// Grow appends entries and projects them.
func (s *Service) Grow(drafts ...domain.Draft) {
	s.t.Helper()
	s.Append(drafts)
	s.Project(1000)
}

// Key makes a key of acme.
func (s *Service) Key(permissions ...access.Permission) (id, text string) {
	s.t.Helper()
	return s.KeyOf("acme", permissions...)
}

// KeyOf makes a key of a workspace.
func (s *Service) KeyOf(workspace string, permissions ...access.Permission) (id, text string) {
	s.t.Helper()
	record, secret, err := s.Keys.Create(s.t.Context(), access.NewKey{
		WorkspaceID: workspace, Name: "Reporting", Permissions: access.PermissionsOf(permissions...), RateLimit: 1_000_000,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return record.ID, secret.Reveal()
}

// WithoutPay has all permissions except pay:read and margin:read.
func WithoutPay() []access.Permission {
	return slices.DeleteFunc(access.AllPermissions(), func(p access.Permission) bool { return p == access.PayRead || p == access.MarginRead })
}

// Line is an entry of acme.
func Line(t testing.TB, format string, args ...any) domain.Draft {
	t.Helper()
	return projectionstest.Draft(t, []byte(`{"workspace_id":"acme",`+fmt.Sprintf(format, args...)+`}`))
}

// History is the beginning of an agency's last 25 days, which differs from hour to hour. At its end
// there is something for each list and for its filters, and rows that are removed or need pay:read.
func History(t testing.TB, seed uint64, n int) []domain.Draft {
	t.Helper()
	end := time.Now().UTC().Truncate(time.Hour)
	g := scenario.New(scenario.Config{
		WorkspaceID: "acme", Seed: seed, Start: end.AddDate(0, 0, -25), End: end, Entries: n, Clients: 4, Contractors: 3,
	})
	var drafts []domain.Draft
	for entry, ok := g.Next(); ok; entry, ok = g.Next() {
		drafts = append(drafts, projectionstest.Draft(t, entry.AppendNDJSON(nil)))
	}
	return append(drafts,
		Line(t, `"type":"payment.confirmed","data":{"payment_id":"pm_1","client_id":"cl_1","amount":"908.51","currency":"EUR","source":"quickbooks"}`),
		Line(t, `"type":"credit.topped_up","data":{"credit_id":"cr_1","client_id":"cl_1","amount":"78.06","currency":"EUR"}`),
		Line(t, `"type":"charge.created","data":{"charge_id":"ch_1","client_id":"cl_1","date":"2026-10-01","category":"a","kind":"b","billed_to_client":false,"amount":"1.00","currency":"EUR","period":"2026-10"}`),
		Line(t, `"type":"time_entry.recorded","data":{"time_entry_id":"te_1","work_date":"2026-10-01","client_id":"cl_1","contractor_id":"co_1","service":"a","hours":7.5,"period":"2026-10","currency":"EUR"}`),
		Line(t, `"type":"time_entry.deleted","data":{"time_entry_id":"te_1"}`),
		Line(t, `"type":"time_entry.recorded","data":{"time_entry_id":"te_2","work_date":"2026-10-02","client_id":"cl_1","contractor_id":"co_1","service":"a","hours":1.25,"period":"2026-10","currency":"EUR"}`),
		Line(t, `"type":"time_entry.approved","data":{"time_entry_id":"te_2"}`),
		Line(t, `"type":"invoice.recorded","data":{"invoice_id":"in_1","number":"1","client_id":"cl_1","period":"2026-10","gross_amount":"420.00","currency":"EUR"}`),
		Line(t, `"type":"invoice.issued","data":{"invoice_id":"in_1","invoice_number":"1","amount":"420.00"}`),
		Line(t, `"type":"invoice.sent","data":{"invoice_id":"in_1"}`),
		Line(t, `"type":"invoice.paid","data":{"invoice_id":"in_1"}`),
		Line(t, `"type":"invoice.recorded","data":{"invoice_id":"in_2","number":"2","client_id":"cl_1","period":"2026-10","gross_amount":"79.90","currency":"EUR"}`),
		Line(t, `"type":"invoice.issued","data":{"invoice_id":"in_2","invoice_number":"2","amount":"79.90"}`),
		Line(t, `"type":"invoice.sent","data":{"invoice_id":"in_2"}`),
	)
}
