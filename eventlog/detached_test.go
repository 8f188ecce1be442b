package eventlog_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

func draft(t testing.TB, workspaceID, id, typ, data string) domain.Draft {
	t.Helper()
	d, err := domain.NewDraft(workspaceID, typ, []byte(data))
	if err != nil {
		t.Fatal(err)
	}
	d.ID = id
	return d
}

// text is a charge of a client with a description; without one if it is empty.
func text(t testing.TB, workspaceID, id, clientID, description string) domain.Draft {
	t.Helper()
	more := ""
	if description != "" {
		more = fmt.Sprintf(`,"description":%q`, description)
	}
	return draft(t, workspaceID, id, "charge.recorded", fmt.Sprintf(
		`{"charge_id":%q,"client_id":%q,"date":"2026-10-01","category":"x","kind":"y","amount":"1.00","currency":"EUR","period":"2026-10"%s}`, id, clientID, more))
}

func forgets(t testing.TB, workspaceID, id, clientID string) domain.Draft {
	t.Helper()
	return draft(t, workspaceID, id, "client.forgotten", fmt.Sprintf(`{"client_id":%q}`, clientID))
}

// projected says that the read models have everything.
func (b *bundle) projected(t *testing.T, workspaceID string) {
	t.Helper()
	b.exec(t, `UPDATE log_checkpoint c SET position = h.position FROM log_head h
		 WHERE h.workspace_id = c.workspace_id AND c.workspace_id = $1 AND c.consumer = 'read_models'`, workspaceID)
}

// values are the entries' values by position, as they stand next to the log.
func (b *bundle) values(t *testing.T, workspaceID string) []string {
	t.Helper()
	rows := testkit.Must(b.pool.Query(t.Context(), `SELECT position || ' ' || subject || ' ' || value FROM log_detached WHERE workspace_id = $1 ORDER BY position`, workspaceID))(t)
	defer rows.Close()
	list := []string{}
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			t.Fatal(err)
		}
		list = append(list, s)
	}
	return list
}

// TestDetachedValuesStandNextToTheLog appends entries one by one, few and many, and reads them back.
func TestDetachedValuesStandNextToTheLog(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var drafts []domain.Draft
	for i := range 20 {
		description := fmt.Sprintf("text %d", i)
		if i%3 == 0 {
			description = ""
		}
		drafts = append(drafts, text(t, "w", fmt.Sprintf("e%02d", i), "c1", description))
	}
	b.append(t, drafts[0])
	b.append(t, drafts[1])
	b.append(t, drafts[2:5]...)
	b.append(t, drafts[5:]...)
	salts := map[domain.Salt]bool{}
	for i, e := range b.soundLog(t, "w") {
		if e.Whole() != drafts[i].Data || e.Value != drafts[i].Value() || strings.Contains(e.Data, "text") {
			t.Errorf("position %d has %s and %s, want %s", e.Position, e.Data, e.Value, drafts[i].Data)
		}
		if e.Value != "" {
			if _, commitment := domain.CutCommitment(e.Data); commitment != e.Commitment() {
				t.Errorf("position %d commits to %s, want %s", e.Position, commitment, e.Commitment())
			}
			salts[e.Salt] = true
		}
	}
	if len(salts) != 13 {
		t.Errorf("%d salts of 13 values", len(salts))
	}
	if got, want := b.values(t, "w")[0], `2 client:c1 {"description":"text 1"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for i, r := range b.append(t, drafts...) {
		if !r.Skipped {
			t.Errorf("entry %d was appended again", i)
		}
	}
	for _, other := range []domain.Draft{
		text(t, "w", "e01", "c1", "another"), text(t, "w", "e01", "c1", ""), text(t, "w", "e00", "c1", "one"), text(t, "w", "e01", "c2", "text 1"),
	} {
		_, err := b.log.Append(t.Context(), other)
		refusal(t, err, 0, other.ID, eventlog.ErrOtherContent)
		verdicts, err := b.log.NewTrial(false).Append(t.Context(), other)
		if err != nil || !errors.Is(verdicts[0].Refused, eventlog.ErrOtherContent) {
			t.Errorf("a trial of %s: %+v, %v", other.Data, verdicts, err)
		}
	}
	if verdicts, err := b.log.NewTrial(false).Append(t.Context(), drafts[0], drafts[1]); err != nil || !verdicts[0].Skipped || !verdicts[1].Skipped {
		t.Errorf("a trial of the same: %+v, %v", verdicts, err)
	}
}

// TestDetachedValuesAreKept: the database itself refuses what would change a value or go around it.
func TestDetachedValuesAreKept(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.append(t, text(t, "w", "a", "c1", "words"))
	for sql, code := range map[string]string{
		`UPDATE log_detached SET value = '{}'`:                 "42501",
		`DELETE FROM log_detached`:                             "42501",
		`DELETE FROM log_detached WHERE workspace_id = 'none'`: "42501",
		`TRUNCATE log_detached`:                                "42501",
		`SELECT log_append('w', clock_timestamp(), NULL, false, ARRAY['b'], ARRAY['a.b'], ARRAY[NULL::timestamptz], ARRAY['{"x":1}'], ARRAY[NULL], ARRAY['{"y":1}'], ARRAY['short'::bytea])`:                                                                       "23514",
		`SELECT log_append('w', clock_timestamp(), NULL, false, ARRAY['b'], ARRAY['a.b'], ARRAY[NULL::timestamptz], ARRAY['{"x":1}'], ARRAY[NULL], ARRAY['{"y":1}'], NULL)`:                                                                                        "23514",
		`SELECT log_append('w', clock_timestamp(), NULL, false, ARRAY['b'], ARRAY['a.b'], ARRAY[NULL::timestamptz], ARRAY['{"x":1}'], ARRAY[NULL], ARRAY['[]'], ARRAY[sha256('s')])`:                                                                               "23514",
		`SELECT log_append('w', clock_timestamp(), NULL, false, ARRAY['b'], ARRAY['a.b'], ARRAY[NULL::timestamptz], ARRAY['{"x":1,"~":"` + strings.Repeat("A", 43) + `"}'], ARRAY[NULL], NULL, NULL)`:                                                              "23514",
		`SELECT log_append('w', clock_timestamp(), NULL, true, ARRAY['b', 'c', 'd'], ARRAY['a.b', 'a.b', 'a.b'], ARRAY[NULL, NULL, NULL]::timestamptz[], ARRAY['{}', '{}', '{"x":1,"~":"` + strings.Repeat("A", 43) + `"}'], ARRAY[NULL, NULL, NULL], NULL, NULL)`: "23514",
	} {
		_, err := b.pool.Exec(t.Context(), sql)
		if pgErr, ok := errors.AsType[*pgconn.PgError](err); !ok || pgErr.Code != code {
			t.Errorf("%s: %v", sql, err)
		}
	}
	if got := b.values(t, "w"); len(got) != 1 {
		t.Errorf("values %q", got)
	}
	b.soundLog(t, "w")
}

// TestForget deletes the values about one client: those before the entry that forgets, once the read
// models have it, and no others.
func TestForget(t *testing.T) {
	t.Parallel()
	b := setup(t)
	timed := draft(t, "w", "timed", "time_entry.recorded", `{"time_entry_id":"t","work_date":"2026-10-01","client_id":"c_1","contractor_id":"k1","service":"s","description":"d","hours":1,"period":"2026-10","currency":"EUR"}`)
	b.append(t, text(t, "w", "a", "c_1", "mine"), text(t, "w", "b", "cx1", "hers"), timed, text(t, "other", "a", "c_1", "elsewhere"))
	b.append(t, forgets(t, "w", "f", "c_1"))
	b.append(t, text(t, "w", "c", "c_1", "new"))
	before := b.soundLog(t, "w")
	forget := func() {
		t.Helper()
		if err := b.log.Forget(t.Context(), "w"); err != nil {
			t.Fatal(err)
		}
	}
	forget() // the read models do not have it yet
	if got := b.values(t, "w"); len(got) != 4 {
		t.Errorf("values %q before the read models have the entry", got)
	}
	if f, err := b.log.ForgottenBy(t.Context(), "w", 4); err != nil || f == nil || f.Ended != nil {
		t.Errorf("%+v, %v", f, err)
	}
	b.projected(t, "w")
	forget()
	if got, want := b.values(t, "w"), []string{`2 client:cx1 {"description":"hers"}`, `5 client:c_1 {"description":"new"}`}; !slices.Equal(got, want) {
		t.Errorf("values %q, want %q", got, want)
	}
	if f, err := b.log.ForgottenBy(t.Context(), "w", 4); err != nil || f == nil || f.Ended == nil || f.Deleted != 2 {
		t.Errorf("%+v, %v", f, err)
	}
	if got := b.values(t, "other"); len(got) != 1 {
		t.Errorf("another workspace has %q", got)
	}
	for i, e := range b.soundLog(t, "w") {
		if e.Data != before[i].Data || e.Chain != before[i].Chain {
			t.Errorf("position %d is %s, was %s", e.Position, e.Data, before[i].Data)
		}
	}
	// The same entry again comes with the same open part; nothing comes back.
	for _, again := range []domain.Draft{text(t, "w", "a", "c_1", "mine"), text(t, "w", "a", "c_1", "anything"), timed} {
		if r := b.append(t, again); !r[0].Skipped {
			t.Errorf("%+v", r)
		}
	}
	_, err := b.log.Append(t.Context(), text(t, "w", "a", "c2", "mine"))
	refusal(t, err, 0, "a", eventlog.ErrOtherContent)
	if got := b.values(t, "w"); len(got) != 2 {
		t.Errorf("values %q", got)
	}
	b.append(t, forgets(t, "w", "f2", "c_1"))
	b.projected(t, "w")
	forget()
	if got := b.values(t, "w"); len(got) != 1 {
		t.Errorf("values %q after forgetting again", got)
	}
	found := map[string]int{}
	if err := b.log.FindText(t.Context(), "w", "HERS", func(e *domain.Entry, subjects string) error {
		found[subjects] += int(e.Position)
		return nil
	}); err != nil || found["client:cx1"] != 2 || len(found) != 1 {
		t.Errorf("found %v, %v", found, err)
	}
}

// TestRestoreOfForgottenValues restores an export with values, and one without, to the same chain.
func TestRestoreOfForgottenValues(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.append(t, text(t, "w", "a", "c1", "words"), text(t, "w", "b", "c2", "others"))
	b.append(t, forgets(t, "w", "f", "c1"))
	b.projected(t, "w")
	if err := b.log.Forget(t.Context(), "w"); err != nil {
		t.Fatal(err)
	}
	want := b.soundLog(t, "w")
	for name, withValues := range map[string]bool{"with": true, "without": false} {
		var drafts []domain.Draft
		for _, e := range want {
			if !withValues {
				e.Value = ""
			}
			d, err := domain.DecodeDraft(e.AppendNDJSON(nil))
			if err != nil {
				t.Fatal(err)
			}
			drafts = append(drafts, d)
		}
		if _, err := b.log.Append(t.Context(), drafts...); !errors.Is(err, eventlog.ErrStoredForm) {
			t.Errorf("appended without restoring: %v", err)
		}
		to := &bundle{pool: testkit.Pool(t), clock: testkit.NewClock(noon)}
		testkit.AnyClock(t, to.pool)
		to.log = newLog(t, eventlog.Config{Pool: to.pool, Clock: to.clock.Now})
		for range 2 {
			if _, err := to.log.Restore(t.Context(), map[string]int64{"w": 1}, drafts...); err != nil {
				t.Fatal(err)
			}
		}
		for i, e := range to.soundLog(t, "w") {
			if e.Chain != want[i].Chain || withValues && e.Value != want[i].Value {
				t.Errorf("%s: position %d is %s, %s, want %s, %s", name, e.Position, e.Data, e.Value, want[i].Data, want[i].Value)
			}
		}
	}
}

// TestDeletionsEnd: a deletion that is under way ends before a later one begins, and one whose entry
// the read models have skipped does not begin, because the rows still have the values.
func TestDeletionsEnd(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.append(t, text(t, "w", "a", "c1", "one"), text(t, "w", "b", "c2", "two"), text(t, "w", "c", "c3", "three"), forgets(t, "w", "f1", "c1"))
	b.projected(t, "w")
	slice := func() {
		t.Helper()
		b.exec(t, `SELECT log_forget('w', 1)`)
	}
	reached := func() (s string) {
		t.Helper()
		if err := b.pool.QueryRow(t.Context(), `
			SELECT string_agg(reached || CASE WHEN ended_at IS NULL THEN '' ELSE ' ended' END, ', ' ORDER BY position)
			  FROM log_forgotten WHERE workspace_id = 'w'`).Scan(&s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	slice()
	b.append(t, forgets(t, "w", "f2", "c2"), forgets(t, "w", "f3", "c3"))
	b.exec(t, `INSERT INTO log_skip (workspace_id, consumer, position, event_id, type, error, reason, skipped_at) VALUES ('w', 'read_models', 6, 'f3', 't', 'e', 'test', now())`)
	b.projected(t, "w")
	for _, want := range []string{"2, 0, 0", "3, 0, 0", "4 ended, 0, 0"} {
		slice()
		if got := reached(); got != want {
			t.Errorf("reached %q, want %q", got, want)
		}
	}
	if err := b.log.Forget(t.Context(), "w"); err != nil {
		t.Fatal(err)
	}
	if got, want := b.values(t, "w"), []string{`3 client:c3 {"description":"three"}`}; !slices.Equal(got, want) {
		t.Errorf("values %q, want %q", got, want)
	}
	if f, err := b.log.ForgottenBy(t.Context(), "w", 6); err != nil || !f.Skipped || f.Ended != nil {
		t.Errorf("%+v, %v", f, err)
	}
	listed := 0
	if err := b.log.WalkForgotten(t.Context(), func(e *domain.Entry) error {
		listed++
		if e.WorkspaceID != "w" || e.Type != domain.TypeClientForgotten {
			t.Errorf("listed %+v", e)
		}
		return nil
	}); err != nil || listed != 3 {
		t.Errorf("%d listed, %v", listed, err)
	}
}

// TestAnOlderPublisherIsRefused: a program that does not know of detached fields gives "data", with
// names in it.
func TestAnOlderPublisherIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if _, err := b.pool.Exec(t.Context(), `SELECT log_publish('w', clock_timestamp(), '[{"index":0,"id":"e","type":"client.recorded","data":"{\"client_id\":\"c\",\"name\":\"n\"}"}]')`); err == nil {
		t.Error("it was taken")
	}
}
