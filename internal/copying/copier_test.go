package copying_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/copying"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/projections/projectionstest"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/client"
	"github.com/ledgerfeed/ledgerfeed/readapi/readapitest"
)

// flat is a row as a table has it: the text of each column by its name.
type flat map[string]string

// flatten adds the fields of an object, nested ones with _ between their names. It returns the arrays
// of objects.
func flatten(into flat, before string, object map[string]any) (arrays map[string][]any) {
	arrays = map[string][]any{}
	for name, value := range object {
		switch value := value.(type) {
		case map[string]any:
			flatten(into, before+name+"_", value)
		case []any:
			arrays[name] = value
		case nil:
			into[before+name] = "null"
		default:
			into[before+name] = fmt.Sprint(value)
		}
	}
	return arrays
}

// same fails the test if a table does not have these rows.
func (p *place) same(t *testing.T, table string, want []flat) {
	t.Helper()
	names, rows := p.texts(t, "SELECT * FROM "+table)
	have := map[string]bool{}
	for _, row := range rows {
		have[fmt.Sprint(row)] = true
	}
	if len(rows) != len(want) || len(have) != len(want) {
		t.Errorf("%s has %d rows, want %d", table, len(rows), len(want))
	}
	for _, one := range want {
		row := make([]string, len(names))
		for i, name := range names {
			text, given := one[name]
			if row[i] = text; !given {
				row[i] = "null" // a part that the key does not see, or an object that is null
			}
			if strings.HasPrefix(p.to, "sqlite") && (text == "true" || text == "false") {
				row[i] = map[string]string{"true": "1", "false": "0"}[text]
			}
			delete(one, name)
		}
		maps.DeleteFunc(one, func(_, value string) bool { return value == "null" }) // an object that is null
		if !have[fmt.Sprint(row)] || len(one) > 0 {
			t.Errorf("%s has no row\n%v\n%v; without a column: %v", table, names, row, one)
			return
		}
	}
}

// TestTables: the tables have exactly what another program says that the API shows, for each kind
// of key.
func TestTables(t *testing.T) {
	t.Parallel()
	s := readapitest.New(t)
	s.Grow(fixture(t)...)
	var expected map[string]map[string]json.RawMessage
	if err := json.Unmarshal(testkit.Must(os.ReadFile("../../domain/testdata/agency.expected.json"))(t), &expected); err != nil {
		t.Fatal(err)
	}
	for name, permissions := range map[string][]access.Permission{
		"base": readapitest.WithoutPay(), "pay": append(readapitest.WithoutPay(), access.PayRead), "pay+margin": access.AllPermissions(),
	} {
		_, key := s.KeyOf("agency-0", permissions...)
		decoder := json.NewDecoder(bytes.NewReader(expected["agency-0"][name]))
		decoder.UseNumber() // no digit is lost
		var lists map[string]any
		if err := decoder.Decode(&lists); err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBoth(t, func(t *testing.T, p *place) {
				p.copy(t, s.Address, key)
				p.equals(t, s.Address, key)
				p.sameLists(t, lists)
			})
		})
	}
}

// TestARowWithManyThings: the check reads what belongs to a row in its order, also beyond the ninth.
func TestARowWithManyThings(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, p *place) {
		s := readapitest.New(t)
		var contacts []string
		for i := range 12 {
			contacts = append(contacts, fmt.Sprintf(`{"first_name":"Contact %d"}`, i))
		}
		s.Grow(readapitest.Line(t, `"type":"client.recorded","data":{"client_id":"cl_many","name":"Many","contacts":[%s]}`, strings.Join(contacts, ",")))
		_, key := s.Key(access.AllPermissions()...)
		p.copy(t, s.Address, key)
		p.equals(t, s.Address, key)
	})
}

func (p *place) sameLists(t *testing.T, lists map[string]any) {
	t.Helper()
	tables := map[string][]flat{"invoices_issued_invoices": nil, "clients_contacts": nil, "credits_packages": nil}
	add := func(list string, row map[string]any, parent string) {
		one := flat{}
		for name, children := range flatten(one, "", row) {
			for i, child := range children {
				of := flat{"parent_" + parent: one[parent], "ordinal": fmt.Sprint(i + 1)}
				flatten(of, "", child.(map[string]any)) //nolint:forcetypeassert // so are the fixtures
				tables[list+"_"+name] = append(tables[list+"_"+name], of)
			}
		}
		tables[list] = append(tables[list], one)
	}
	for list, rows := range lists {
		if rows, ok := rows.([]any); ok && list != "events" {
			for _, row := range rows {
				add(strings.ReplaceAll(list, "-", "_"), row.(map[string]any), "id") //nolint:forcetypeassert // so are the fixtures
			}
		}
	}
	for client, credit := range lists["credit"].(map[string]any) { //nolint:forcetypeassert // so are the fixtures
		credit := credit.(map[string]any) //nolint:forcetypeassert // so are the fixtures
		name := p.value(t, "SELECT coalesce(max(client_name), 'null') FROM credits WHERE client_id = '"+client+"'")
		for _, row := range credit["history"].([]any) { //nolint:forcetypeassert // so are the fixtures
			row := row.(map[string]any) //nolint:forcetypeassert // so are the fixtures
			row["client_id"], row["client_name"] = client, name
			add("credit_history", row, "id")
		}
		updated := p.value(t, "SELECT updated_at FROM credits WHERE client_id = '"+client+"'") // is not in the fixtures
		row := map[string]any{"client_id": client, "client_name": name, "updated_at": updated}
		for _, field := range []string{"balance", "general_credit", "currency", "packages"} {
			row[field] = credit[field]
		}
		add("credits", row, "client_id")
	}
	for table, rows := range tables {
		p.same(t, table, rows)
	}
}

// fixture are the entries of the fixtures' first workspace.
func fixture(t *testing.T) (drafts []domain.Draft) {
	t.Helper()
	for line := range bytes.Lines(testkit.Must(os.ReadFile("../../domain/testdata/agency.ndjson"))(t)) {
		if d := projectionstest.Draft(t, line); d.WorkspaceID == "agency-0" {
			drafts = append(drafts, d)
		}
	}
	return drafts
}

// TestFollowing: a copier that runs takes over what is added, changed and removed, and a check beside
// it finds nothing. What was changed in the copy by others is found.
func TestFollowing(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, p *place) {
		s := readapitest.New(t)
		drafts := readapitest.History(t, 3, testkit.Scale(900, 3000))
		s.Grow(drafts[:300]...)
		_, key := s.Key(access.AllPermissions()...)
		c, said := p.copier(t, s.Address, key, func(c *copying.Config) { c.Once = false })
		stop := running(t, c)
		p.await(t, said, "copied", "credit_history")
		for part := range slices.Chunk(drafts[300:], 100) {
			s.Grow(part...)
			p.equals(t, s.Address, key)
		}
		p.awaitValue(t, "SELECT count(*) FROM time_entries WHERE id = 'te_1'", "0") // it was removed
		p.awaitValue(t, "SELECT count(*) FROM payments WHERE id = 'pm_1'", "1")
		stop()
		if p.value(t, "SELECT count(*) FROM _ledgerfeed WHERE fresh_at IS NULL OR copied_at IS NULL OR position = 0") != "0" {
			t.Error("the table of places has no freshness")
		}
		p.change(t, "UPDATE payments SET amount = '908.50' WHERE id = 'pm_1'")
		p.change(t, "DELETE FROM charges WHERE id = 'ch_1'")
		p.change(t, "UPDATE time_entries SET id = 'te_other' WHERE id = (SELECT min(id) FROM time_entries)")
		p.change(t, "DELETE FROM clients_contacts WHERE ordinal = 1 AND parent_id = (SELECT min(parent_id) FROM clients_contacts)")
		_, differences := p.check(t, s.Address, key)
		text := strings.Join(differences, "\n")
		for _, want := range []string{"payments pm_1 differs in amount\n", "charges ch_1 is missing in the copy", "time_entries te_other is not in the API", " differs in clients_contacts"} {
			if !strings.Contains(text, want) {
				t.Errorf("the check does not say %q:\n%s", want, text)
			}
		}
		if len(differences) != 5 {
			t.Errorf("%d differences, want 5:\n%s", len(differences), text)
		}
	})
}

// await waits until a line of the log has all these words.
func (p *place) await(t testing.TB, said *testkit.Buffer, words ...string) {
	t.Helper()
	testkit.Eventually(t, func() error {
		for _, line := range said.Lines() {
			if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(line, word) }) {
				return nil
			}
		}
		return fmt.Errorf("nothing was said of %v:\n%s", words, said)
	})
}

func (p *place) awaitValue(t testing.TB, query, want string) {
	t.Helper()
	testkit.Eventually(t, func() error {
		if have := p.value(t, query); have != want {
			return fmt.Errorf("%s: %s, want %s", query, have, want)
		}
		return nil
	})
}

// TestRemovedRowsAreKept: with soft deletes a removed row stays with its time, and one that comes back
// is as if it had never gone. The views have only what is there.
func TestRemovedRowsAreKept(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, p *place) {
		s := readapitest.New(t)
		entry := func(id string) domain.Draft {
			return readapitest.Line(t, `"type":"time_entry.recorded","data":{"time_entry_id":%q,"work_date":"2026-10-01","client_id":"cl_1","contractor_id":"co_1","service":"a","hours":7.5,"period":"2026-10","currency":"EUR"}`, id)
		}
		gone := readapitest.Line(t, `"type":"time_entry.deleted","data":{"time_entry_id":"te_1"}`)
		keep := func(c *copying.Config) { c.KeepRemoved = true }
		s.Grow(entry("te_1"), entry("te_2"))
		_, key := s.Key(access.AllPermissions()...)
		p.copy(t, s.Address, key, keep)
		s.Grow(gone)
		p.copy(t, s.Address, key, keep)
		p.equals(t, s.Address, key)
		if _, rows := p.texts(t, "SELECT id FROM time_entries WHERE removed_at IS NOT NULL AND hours IS NOT NULL"); fmt.Sprint(rows) != "[[te_1]]" {
			t.Errorf("kept: %v", rows)
		}
		p.change(t, "UPDATE _ledgerfeed SET cursor = 'altered' WHERE list = 'time_entries'")
		if said := p.copy(t, s.Address, key, keep); !strings.Contains(said, "copied again from its start") || !strings.Contains(said, "cursor_invalid") {
			t.Errorf("an altered cursor is not told:\n%s", said)
		}
		p.equals(t, s.Address, key)
		if hours := p.value(t, "SELECT hours FROM hours_by_contractor"); strings.TrimRight(hours, "0") != "7.5" {
			t.Errorf("the view has %s hours, want those of one row", hours)
		}
		p.copy(t, s.Address, key)
		p.change(t, "UPDATE _ledgerfeed SET cursor = ''")
		p.copy(t, s.Address, key)
		if n := p.value(t, "SELECT count(*) FROM time_entries"); n != "1" {
			t.Errorf("%s rows without soft deletes, want 1", n)
		}
	})
}

// TestKeptRowsOfAKeyThatSeesLess: soft deletes keep nothing that the key of now may not see, neither
// fields of pay nor payouts.
func TestKeptRowsOfAKeyThatSeesLess(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, p *place) {
		s := readapitest.New(t)
		s.Grow(readapitest.History(t, 3, 600)...)
		s.Grow(readapitest.Line(t, `"type":"time_entry.recorded","data":{"time_entry_id":"te_gone","work_date":"2026-10-01","client_id":"cl_1","contractor_id":"co_1","service":"a","hours":7.5,"pay_amount":"70.00","period":"2026-10","currency":"EUR"}`))
		_, all := s.Key(access.AllPermissions()...)
		_, less := s.Key(readapitest.WithoutPay()...)
		keep := func(c *copying.Config) { c.KeepRemoved = true }
		p.copy(t, s.Address, all, keep)
		s.Grow(readapitest.Line(t, `"type":"time_entry.deleted","data":{"time_entry_id":"te_gone"}`))
		p.copy(t, s.Address, all, keep)
		const secrets = "SELECT (SELECT count(pay_amount) FROM time_entries) + (SELECT count(pay_amount) FROM charges) + (SELECT count(*) FROM payments WHERE direction = 'paid_to_contractor')"
		if p.value(t, secrets) == "0" || p.value(t, "SELECT pay_amount FROM time_entries WHERE removed_at IS NOT NULL") != "70.00" {
			t.Fatal("the history has no pay, or a removed row is not kept")
		}
		p.copy(t, s.Address, less, keep)
		if n := p.value(t, secrets); n != "0" {
			t.Errorf("%s rows have what the key may not see", n)
		}
		p.equals(t, s.Address, less)
		s.Grow(readapitest.Line(t, `"type":"time_entry.recorded","data":{"time_entry_id":"te_later","work_date":"2026-10-01","client_id":"cl_1","contractor_id":"co_1","service":"a","hours":1,"period":"2026-10","currency":"EUR"}`))
		p.copy(t, s.Address, less, keep)
		s.Grow(readapitest.Line(t, `"type":"time_entry.deleted","data":{"time_entry_id":"te_later"}`))
		p.copy(t, s.Address, less, keep)
		if n := p.value(t, "SELECT count(*) FROM time_entries WHERE removed_at IS NOT NULL"); n != "1" {
			t.Errorf("%s removed rows are kept later, want 1", n)
		}
	})
}

// TestACopyBesideAnother: a process that keeps the copy goes on after another one has copied once.
func TestACopyBesideAnother(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, p *place) {
		s := readapitest.New(t)
		s.Grow(readapitest.History(t, 3, 100)...)
		_, key := s.Key(access.AllPermissions()...)
		p.copy(t, s.Address, key)
		kept, said := p.copier(t, s.Address, key, func(c *copying.Config) { c.Once = false })
		defer running(t, kept)()
		// A copier that meets another one before its first success ends.
		s.Grow(readapitest.Line(t, `"type":"client.recorded","data":{"client_id":"cl_first","name":"First"}`))
		p.awaitValue(t, "SELECT count(*) FROM clients WHERE id = 'cl_first'", "1")
		beside := 0
		testkit.Eventually(t, func() error {
			beside++
			p.change(t, "UPDATE _ledgerfeed SET cursor = '' WHERE list = 'clients'") // as if another one were at another place
			s.Grow(readapitest.Line(t, `"type":"client.recorded","data":{"client_id":"cl_beside_%d","name":"Beside"}`, beside))
			if !strings.Contains(said.String(), "another process changes this copy") {
				return errors.New("the copier has not noticed")
			}
			return nil
		})
		testkit.Eventually(t, func() error {
			if strings.Count(said.String(), "list=clients") == 0 {
				return errors.New("the list is not copied again")
			}
			return nil
		})
	})
}

// TestADatabaseThatGoesSilent: when the database of the copy has taken a statement and never answers
// it, the copy goes on over another connection. Those that were idle meanwhile are silent, too.
func TestADatabaseThatGoesSilent(t *testing.T) {
	t.Parallel()
	database := testkit.EmptyDatabase(t)
	link, to := testkit.Link(t, database)
	p := &place{to: to, schema: "billing", sql: testkit.Must(sql.Open("pgx", database+"&search_path=billing"))(t)}
	t.Cleanup(func() { _ = p.sql.Close() })
	s := readapitest.New(t)
	s.Grow(readapitest.History(t, 3, 100)...)
	_, key := s.Key(access.AllPermissions()...)
	c, said := p.copier(t, s.Address, key, func(c *copying.Config) { c.Once, c.PageTimeout = false, 10*time.Second })
	stop := running(t, c)
	defer stop()
	p.await(t, said, "copied", "credit_history")
	holding := testkit.Must(p.sql.BeginTx(t.Context(), nil))(t)
	testkit.Must(holding.ExecContext(t.Context(), "LOCK TABLE clients"))(t)
	s.Grow(readapitest.Line(t, `"type":"client.recorded","data":{"client_id":"cl_silent","name":"Silent"}`))
	p.awaitValue(t, "SELECT (count(*) > 0)::int FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()", "1")
	link.Silence()
	if err := holding.Rollback(); err != nil {
		t.Fatal(err)
	}
	p.awaitValue(t, "SELECT count(*) FROM clients WHERE id = 'cl_silent'", "1")
	p.await(t, said, "the copy failed and goes on from its place", "deadline")
}

// TestAReplacedKey: when the key is refused, the copy goes on with the one that is in its place now.
func TestAReplacedKey(t *testing.T) {
	t.Parallel()
	s := readapitest.New(t)
	s.Grow(readapitest.History(t, 3, 100)...)
	_, key := s.Key(access.AllPermissions()...)
	p := &place{to: "sqlite:" + filepath.Join(t.TempDir(), "copy.db")} // nothing here depends on the database
	made := 0
	c, said := p.copier(t, s.Address, "service_refused0_00000000000000000000000000000000000000", func(c *copying.Config) {
		c.Reconnect = func() (*client.Client, error) {
			if made++; made > 1 {
				return nil, nil
			}
			return client.New(client.Config{URL: s.Address, Key: key})
		}
	})
	if err := c.Run(t.Context()); err != nil || !strings.Contains(said.String(), "the copy goes on with it") {
		t.Errorf("%v\n%s", err, said)
	}
	p.equals(t, s.Address, key)
}

// TestOtherKeys: with a key that sees more, or less, the copy is what this key sees. A key of another
// workspace is refused.
func TestOtherKeys(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, p *place) {
		s := readapitest.New(t)
		s.Grow(readapitest.History(t, 3, 600)...)
		_, all := s.Key(access.AllPermissions()...)
		_, base := s.Key(readapitest.WithoutPay()...)
		_, few := s.Key(access.InvoicesRead)
		p.copy(t, s.Address, base)
		for _, key := range []string{all, base, few, all} {
			said := p.copy(t, s.Address, key)
			if !strings.Contains(said, "copied again from its start") || !strings.Contains(said, "the key's permissions were") {
				t.Errorf("another key is not told:\n%s", said)
			}
			p.equals(t, s.Address, key)
			if key == few && (p.value(t, "SELECT count(*) FROM clients") != "0" || !strings.Contains(said, "no longer copied")) {
				t.Errorf("a list that the key does not see stays:\n%s", said)
			}
		}
		if said := p.copy(t, s.Address, all); strings.Contains(said, "again") {
			t.Errorf("the same key copies again:\n%s", said)
		}
		s.Grow(projectionstest.Draft(t, []byte(`{"workspace_id":"other","type":"client.recorded","data":{"client_id":"cl_1","name":"A"}}`)))
		_, other := s.KeyOf("other", access.AllPermissions()...)
		c, _ := p.copier(t, s.Address, other)
		if err := c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "the copy is of the workspace acme") {
			t.Errorf("another workspace: %v", err)
		}
	})
}

// TestARestoredLog: a copy of a log that went back is, by itself, a copy of what is there now, while
// the copier runs and between its runs.
func TestARestoredLog(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, p *place) {
		lost, restored := readapitest.New(t), readapitest.New(t)
		lost.Grow(readapitest.History(t, 3, 500)...)
		restored.Grow(readapitest.History(t, 4, 500)...)
		_, before := lost.Key(access.AllPermissions()...)
		_, after := restored.Key(access.AllPermissions()...)
		p.copy(t, lost.Address, before)
		said := p.copy(t, restored.Address, after)
		if strings.Count(said, "cursor_reset") != 8 {
			t.Errorf("not each list says that the log went back:\n%s", said)
		}
		p.equals(t, restored.Address, after)

		// The address of a running copier leads to the other service.
		address, to := switching(t, restored.Address)
		keys := map[string]string{restored.Address: after, lost.Address: before}
		to.key.Store(&keys)
		c, log := p.copier(t, address, "any", func(c *copying.Config) { c.Once = false })
		stop := running(t, c)
		p.awaitValue(t, "SELECT count(*) FROM _ledgerfeed WHERE fresh_at IS NULL", "0")
		to.upstream.Store(&lost.Address)
		restored.Grow(readapitest.Line(t, `"type":"payment.confirmed","data":{"payment_id":"pm_9","client_id":"cl_1","amount":"1.00","currency":"EUR","source":"a"}`))
		p.await(t, log, "cursor_reset", "list=payments")
		p.awaitValue(t, "SELECT count(*) FROM payments WHERE id = 'pm_9'", "0")
		stop()
		p.copy(t, lost.Address, before)
		p.equals(t, lost.Address, before)
	})
}

// switched is a proxy to one service or another, with the service's key.
type switched struct {
	upstream atomic.Pointer[string]
	key      atomic.Pointer[map[string]string]
	change   func(path string, body []byte) []byte
}

func switching(t *testing.T, upstream string) (address string, s *switched) {
	t.Helper()
	s = &switched{}
	s.upstream.Store(&upstream)
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			to := *s.upstream.Load()
			r.SetURL(testkit.Must(url.Parse(to))(t))
			r.Out.Header.Del("Accept-Encoding")
			if keys := s.key.Load(); keys != nil {
				r.Out.Header.Set("Authorization", "Bearer "+(*keys)[to])
			}
		},
		ModifyResponse: func(r *http.Response) error {
			if s.change == nil {
				return nil
			}
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return err
			}
			body = s.change(r.Request.URL.Path, body)
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			r.Header.Del("Content-Length")
			return nil
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	server := httptest.NewUnstartedServer(proxy)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	proxy.ErrorLog = server.Config.ErrorLog
	server.Start()
	t.Cleanup(server.Close)
	return server.URL, s
}

// TestNewFields: a field that the API gets becomes a column with the values of all rows, whether the
// copier runs meanwhile or not. A field that no description has is passed over.
func TestNewFields(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, p *place) {
		s := readapitest.New(t)
		s.Grow(readapitest.History(t, 3, 500)...)
		_, key := s.Key(access.AllPermissions()...)
		address, proxy := switching(t, s.Address)
		var described atomic.Int64 // how often the description was read
		proxy.change = func(path string, body []byte) []byte {
			text := string(body)
			if path == "/v1/openapi.json" && described.Add(1) > 2 {
				text = strings.ReplaceAll(text, `"billed_to_client": {`, `"weight": {"type":["number","null"]},"billed_to_client": {`)
			}
			if strings.HasPrefix(path, "/v1/charges") && described.Load() > 1 {
				text = strings.ReplaceAll(text, `"billed_to_client":`, `"weight":1.50,"secret":{"a":[]},"billed_to_client":`)
			}
			return []byte(text)
		}
		p.copy(t, address, key)
		c, said := p.copier(t, address, key, func(c *copying.Config) { c.Once = false })
		stop := running(t, c)
		s.Grow(readapitest.Line(t, `"type":"charge.created","data":{"charge_id":"ch_9","client_id":"cl_1","date":"2026-10-01","category":"a","kind":"b","amount":"1.00","currency":"EUR","period":"2026-10"}`))
		p.await(t, said, "new fields", "weight", "secret")
		p.await(t, said, "copied again from its start", "charges.weight")
		p.awaitValue(t, "SELECT count(*) FROM charges WHERE id = 'ch_9'", "1")
		stop()
		if n := p.value(t, "SELECT count(*) FROM charges WHERE weight IS NULL OR CAST(weight AS TEXT) <> '1.50'"); n != "0" {
			t.Errorf("%s rows have no value in the new column", n)
		}
		p.equals(t, address, key)
	})
}

// TestForeignTables: the copier does not write into tables that are not its own.
func TestForeignTables(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, p *place) {
		s := readapitest.New(t)
		s.Grow(readapitest.History(t, 3, 100)...)
		_, key := s.Key(access.AllPermissions()...)
		if p.schema != "" {
			p.change(t, "CREATE SCHEMA billing")
		}
		p.change(t, "CREATE TABLE clients (id text)")
		c, _ := p.copier(t, s.Address, key)
		if err := c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "table clients, which the copy needs, cannot be made") {
			t.Errorf("a foreign table: %v", err)
		}
	})
}

// TestTwoCopiers: of two copiers at the same copy, one ends, and the copy stays right.
func TestTwoCopiers(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, p *place) {
		s := readapitest.New(t)
		s.Grow(readapitest.History(t, 3, 300)...)
		_, key := s.Key(access.AllPermissions()...)
		follow := func(c *copying.Config) { c.Once = false }
		first, _ := p.copier(t, s.Address, key, follow)
		p.copy(t, s.Address, key)
		stop := running(t, first)
		second, _ := p.copier(t, s.Address, key, follow)
		ended := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { ended <- second.Run(ctx) }()
		for i := 0; ; i++ {
			s.Grow(readapitest.Line(t, `"type":"payment.confirmed","data":{"payment_id":"pm_two_%d","client_id":"cl_1","amount":"1.00","currency":"EUR","source":"a"}`, i))
			if err, over := testkit.Offered(ended); over {
				if !strings.Contains(err.Error(), "another process changes this copy") {
					t.Error(err)
				}
				break
			}
			if i == 200 {
				break // the first one has ended instead
			}
		}
		cancel()
		stop()
		p.copy(t, s.Address, key)
		p.equals(t, s.Address, key)
	})
}

// TestViews: the views add up exactly.
func TestViews(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, p *place) {
		s := readapitest.New(t)
		s.Grow(fixture(t)...)
		_, key := s.KeyOf("agency-0", access.AllPermissions()...)
		p.copy(t, s.Address, key)
		for view, sums := range map[string]string{
			"revenue_by_month":    "SELECT sum(CASE type WHEN 'credit_note' THEN -1 ELSE 1 END * CAST(gross_amount AS numeric)) FROM invoices|invoiced",
			"hours_by_contractor": "SELECT sum(CAST(hours AS numeric)) FROM time_entries WHERE status <> 'declined'|hours",
			"payouts_by_month":    "SELECT sum(CAST(amount AS numeric)) FROM payments WHERE direction = 'paid_to_contractor'|amount",
			"unpaid_invoices":     "SELECT sum(CAST(net_due AS numeric)) FROM invoices WHERE type <> 'credit_note' AND NOT reversed AND NOT billed_externally AND client_billing_status = 'sent'|net_due",
			"credit_left":         "SELECT sum(CAST(balance AS numeric)) FROM credits|balance",
		} {
			query, column, _ := strings.Cut(sums, "|")
			want, have := p.value(t, query), p.value(t, "SELECT sum(CAST("+column+" AS numeric)) FROM "+view)
			if number(t, want) != number(t, have) || number(t, want) == "0.0000" {
				t.Errorf("%s: %s is %s, want %s", view, column, have, want)
			}
		}
		if bad := p.value(t, "SELECT count(*) FROM revenue_by_month WHERE month NOT LIKE '20__-__'"); bad != "0" {
			t.Errorf("%s months are none", bad)
		}
		leftToPay(t, p)
		ages(t, p)
	})
}

// leftToPay: what was paid in part, and credited, is taken off.
func leftToPay(t *testing.T, p *place) {
	t.Helper()
	id := p.value(t, "SELECT min(id) FROM unpaid_invoices")
	p.change(t, "UPDATE invoices SET net_due = '100.00' WHERE id = '"+id+"'")
	p.change(t, "DELETE FROM payments WHERE invoice_id = '"+id+"'")
	show := func() string {
		return p.value(t, "SELECT paid || ' ' || credited || ' ' || left_to_pay FROM unpaid_invoices WHERE id = '"+id+"'")
	}
	if got := show(); got != "0.00 0.00 100.00" {
		t.Errorf("unpaid: %s", got)
	}
	p.change(t, "UPDATE payments SET amount = '30.10', direction = 'received_from_client', invoice_id = '"+id+"' WHERE id IN (SELECT id FROM payments ORDER BY id LIMIT 2)")
	p.change(t, "UPDATE invoices SET type = 'credit_note', gross_amount = '45.00', credit_note_source_invoice_id = '"+id+"' WHERE id = (SELECT max(id) FROM invoices)")
	if got := show(); got != "60.20 45.00 -5.20" {
		t.Errorf("paid in part and credited: %s", got)
	}
}

// TestLeftToPayWithoutPayments: to a key that reads no payments, what is paid is unknown, and not zero.
func TestLeftToPayWithoutPayments(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, p *place) {
		s := readapitest.New(t)
		s.Grow(fixture(t)...)
		_, key := s.KeyOf("agency-0", access.InvoicesRead)
		p.copy(t, s.Address, key)
		got := p.value(t, "SELECT count(*) || ' ' || count(net_due) || ' ' || count(credited) || ' ' || count(paid) || ' ' || count(left_to_pay) FROM unpaid_invoices")
		all, _, _ := strings.Cut(got, " ")
		if got != all+" "+all+" "+all+" 0 0" || all == "0" {
			t.Errorf("invoices, and those whose net_due, credited, paid and left_to_pay are known: %s", got)
		}
	})
}

// ages checks how old unpaid invoices are. Days are those of UTC: both ends of a day count alike,
// whatever the reader's time zone.
func ages(t *testing.T, p *place) {
	t.Helper()
	id := p.value(t, "SELECT min(id) FROM unpaid_invoices")
	for _, c := range []struct {
		days int
		want string
	}{{0, "0 0-30"}, {30, "30 0-30"}, {31, "31 31-60"}, {60, "60 31-60"}, {61, "61 61-90"}, {90, "90 61-90"}, {91, "91 over 90"}} {
		for _, clock := range []string{"T00:00:00.000Z", "T23:59:59.999Z"} {
			for today := ""; today != utcDay(0); { // the view counts by the database's clock, and midnight can pass
				today = utcDay(0)
				p.change(t, "UPDATE invoices SET sent_at = '"+utcDay(c.days)+clock+"' WHERE id = '"+id+"'")
				got := p.value(t, "SELECT days || ' ' || age FROM unpaid_invoices WHERE id = '"+id+"'")
				if got != c.want && today == utcDay(0) {
					t.Errorf("sent %d days ago at %s: %s, want %s", c.days, clock, got, c.want)
				}
			}
		}
	}
}

// utcDay is the day in UTC of so many days ago.
func utcDay(ago int) string { return time.Now().UTC().AddDate(0, 0, -ago).Format(time.DateOnly) }

// number is a number to four decimals.
func number(t *testing.T, text string) string {
	t.Helper()
	var f float64
	if _, err := fmt.Sscan(text, &f); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%.4f", f)
}
