package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// damagedPlan is what damage puts into every invoice of a workspace.
const damagedPlan = "DAMAGED"

// When a rebuild is killed at any moment under load, each workspace has either its
// old rows or its new ones: for many readers that page through all lists, for a
// follower of the feed, and after the kill. Entries are appended and projected at
// the same time.
func TestRebuildKilledUnderLoad(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	rounds := testkit.Scale(10, 50)
	succeed(t, url, append([]string{"append"}, chunks(t, 2, 60)...)...)
	serving := startProcess(t, command(t, url, "serve", "--roles", "api,project", "--no-migrate"))
	succeed(t, url, "status", "--wait", "--timeout", "1m")
	load := startLoad(t, url, apiOf(serving), "agency-0", "agency-1")
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	sessions := testkit.OpenPool(t, url, 1)
	rng := rand.New(rand.NewPCG(5, 6)) // the same moments in every run
	for round := range rounds {
		damageInvoices(t, conn)
		rebuilding := startProcess(t, command(t, url+killedSession, "rebuild", "--workers", "1"))
		awaitSession(t, sessions, rebuilding)
		late, cancel := context.WithTimeout(t.Context(), time.Duration(rng.IntN(200))*time.Millisecond)
		select {
		case <-late.Done():
		case <-rebuilding.done:
		}
		cancel()
		rebuilding.kill()
		for _, w := range []string{"agency-0", "agency-1"} {
			var damaged, all int
			if err := conn.QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE base LIKE '%"`+damagedPlan+`"%'), count(*) FROM invoice WHERE workspace_id = $1`, w).Scan(&damaged, &all); err != nil {
				t.Fatal(err)
			}
			if damaged != 0 && damaged != all {
				t.Fatalf("round %d: %d of %d invoices of %s are rebuilt", round, all-damaged, all, w)
			}
		}
		succeed(t, url, "rebuild")
	}
	load.end()
	succeed(t, url, "status", "--wait", "--timeout", "1m")
	succeed(t, url, "verify")
	newFoldCheck(t, url).readModels(rounds)
	if code := serving.stop(); code != cli.ExitDone {
		t.Errorf("serve ended with %d:\n%s", code, serving.log)
	}
}

// damageInvoices damages all invoices of all workspaces in one transaction, and
// marks the workspaces as changed for the API's cache.
func damageInvoices(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	err := pg.InTx(t.Context(), conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `SELECT FROM log_checkpoint ORDER BY workspace_id FOR UPDATE`); err != nil {
			return err
		}
		if _, err := tx.Exec(t.Context(), `UPDATE invoice SET base = regexp_replace(base, '"plan_name":(null|"[^"]*")', '"plan_name":"`+damagedPlan+`"')`); err != nil {
			return err
		}
		_, err := tx.Exec(t.Context(), `UPDATE log_checkpoint SET moved_at = clock_timestamp()`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// underLoad is readers and a writer that run until end.
type underLoad struct {
	t     *testing.T
	stop  chan struct{}
	group sync.WaitGroup
	pages atomic.Int64
	seen  atomic.Int64 // events
}

// loadReaders is how many readers page through all lists at the same time.
func loadReaders() int { return testkit.Scale(5, 20) }

func startLoad(t *testing.T, url, api string, workspaces ...string) *underLoad {
	t.Helper()
	l := &underLoad{t: t, stop: make(chan struct{})}
	callers := make([]*caller, len(workspaces))
	for i, w := range workspaces {
		callers[i] = newCaller(t, url, api, w)
	}
	for i := range loadReaders() {
		l.group.Go(func() { l.page(callers[i%len(callers)]) })
	}
	for _, c := range callers {
		l.group.Go(func() { l.follow(c) })
	}
	l.group.Go(func() { l.write(url, workspaces) })
	t.Cleanup(l.end)
	return l
}

func (l *underLoad) ended() bool {
	select {
	case <-l.stop:
		return true
	default:
		return false
	}
}

func (l *underLoad) end() {
	if l.ended() {
		return
	}
	close(l.stop)
	l.group.Wait()
	if l.pages.Load() < int64(loadReaders()) || l.seen.Load() == 0 {
		l.t.Errorf("only %d pages and %d events were read", l.pages.Load(), l.seen.Load())
	}
}

// listPage is a page of any list.
type listPage struct {
	Data []struct {
		ID       string `json:"id"`
		PlanName string `json:"plan_name"`
		Updated  string `json:"updated_at"`
	} `json:"data"`
	HasMore bool   `json:"has_more"`
	Next    string `json:"next_cursor"`
}

func (l *underLoad) read(c *caller, path string) (p listPage, ok bool) {
	a, err := c.get(path, "")
	// A database that has much else to do may make a page a 503, after which callers try again.
	for tries := 0; err == nil && a.status == http.StatusServiceUnavailable && tries < 20; tries++ {
		flow.Sleep(l.t.Context(), 200*time.Millisecond)
		a, err = c.get(path, "")
	}
	if err == nil && a.status == http.StatusOK {
		err = json.Unmarshal(a.body, &p)
	}
	if err != nil || a.status != http.StatusOK {
		l.t.Errorf("%s: %d, %v: %s", path, a.status, err, a.body)
		return p, false
	}
	l.pages.Add(1)
	return p, true
}

// page pages through all lists: rows come in order of their last change, and a
// page of invoices is damaged or repaired, never both.
func (l *underLoad) page(c *caller) {
	for {
		for _, list := range []string{"invoices", "time-entries", "charges", "payments", "clients", "contractors"} {
			newest := ""
			for next := ""; ; {
				if l.ended() {
					return
				}
				p, ok := l.read(c, "/v1/"+list+"?limit=100"+next)
				if !ok {
					return
				}
				damaged := 0
				for _, row := range p.Data {
					if row.Updated < newest {
						l.t.Errorf("%s of %s: %s after %s", list, row.ID, row.Updated, newest)
					}
					newest = row.Updated
					if row.PlanName == damagedPlan {
						damaged++
					}
				}
				if list == "invoices" && damaged > 0 && damaged < len(p.Data) {
					l.t.Errorf("a page with %d old and %d new rows", damaged, len(p.Data)-damaged)
				}
				if next = "&cursor=" + p.Next; !p.HasMore {
					break
				}
			}
		}
	}
}

// follow follows the feed by its cursor: no event twice.
func (l *underLoad) follow(c *caller) {
	met := map[string]bool{}
	for next := ""; !l.ended(); {
		p, ok := l.read(c, "/v1/events?limit=100"+next)
		if !ok {
			return
		}
		for _, e := range p.Data {
			if met[e.ID] {
				l.t.Errorf("the event %s came twice", e.ID)
			}
			met[e.ID] = true
			l.seen.Add(1)
		}
		next = "&cursor=" + p.Next
	}
}

// write records and approves time entries, which gives the feed events.
func (l *underLoad) write(url string, workspaces []string) {
	pool, err := pg.Open(l.t.Context(), url, pg.Options{MaxConns: 1})
	if err != nil {
		l.t.Error(err)
		return
	}
	defer pool.Close()
	log, err := eventlog.New(eventlog.Config{Pool: pool, Clock: time.Now})
	if err != nil {
		l.t.Error(err)
		return
	}
	every := time.NewTicker(20 * time.Millisecond)
	defer every.Stop()
	for i := 0; !l.ended(); i++ {
		<-every.C
		var drafts []domain.Draft
		for _, w := range workspaces {
			for _, line := range []string{
				`{"workspace_id":"%s","type":"time_entry.recorded","data":{"time_entry_id":"load-%d","work_date":"2026-01-01","client_id":"cl_000001","contractor_id":"co_000001","service":"s","hours":1,"period":"2026-01","currency":"EUR"}}`,
				`{"workspace_id":"%s","type":"time_entry.approved","data":{"time_entry_id":"load-%d"}}`,
			} {
				d, err := domain.DecodeDraft(fmt.Appendf(nil, line, w, i))
				if err != nil {
					l.t.Error(err)
					return
				}
				drafts = append(drafts, d)
			}
		}
		if _, err := log.Append(l.t.Context(), drafts...); err != nil && !strings.Contains(err.Error(), "context") {
			l.t.Error(err)
			return
		}
	}
}
