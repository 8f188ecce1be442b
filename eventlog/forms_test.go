package eventlog_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// appendInSQL appends one entry as a producer does that has no program of ours.
func appendInSQL(t *testing.T, pool testkit.DB, id, typ string, now, created any, public *string) (outcome string, err error) {
	t.Helper()
	err = pool.QueryRow(t.Context(), `
		SELECT outcomes[1] FROM log_append('w', coalesce($1::timestamptz, clock_timestamp()), NULL, true, ARRAY[$2], ARRAY[$3], ARRAY[$4::timestamptz], ARRAY['{"x":1}'], ARRAY[$5::text], NULL, NULL)`,
		now, id, typ, created, public).Scan(&outcome)
	return outcome, err
}

// TestDatabaseRefusesForms: what a later stage cannot carry the database itself refuses, and
// takes everything that one can.
func TestDatabaseRefusesForms(t *testing.T) {
	t.Parallel()
	pool := testkit.Pool(t)
	long := func(n int) string { return `{"x":"` + strings.Repeat("a", n) + `"}` }
	// What the public form has beside the text, with an id of eight bytes.
	fits := len(`{"id":"12345678","type":"a.b","created_at":"2026-01-01T00:00:00.000Z","data":{"x":""}}`)
	for name, c := range map[string]struct {
		typ, public string
		taken       bool
	}{
		"plain":                   {"a.b", `{"x":1}`, true},
		"one word":                {"a", `{"x":1}`, true},
		"several words":           {"a_b.c_d.e", `{"x":1}`, true},
		"two dots":                {"a..b", `{"x":1}`, false},
		"dots alone":              {"..", `{"x":1}`, false},
		"a dot first":             {".a", `{"x":1}`, false},
		"a dot last":              {"a.", `{"x":1}`, false},
		"a low line first":        {"_a", `{"x":1}`, false},
		"a low line last":         {"a_", `{"x":1}`, false},
		"two low lines":           {"a__b", `{"x":1}`, false},
		"a dot and a low line":    {"a._b", `{"x":1}`, false},
		"a line feed last":        {"a\n", `{"x":1}`, false},
		"no type":                 {"", `{"x":1}`, false},
		"a capital":               {"A", `{"x":1}`, false},
		"a digit":                 {"a1", `{"x":1}`, false},
		"the longest":             {"a.b", long(65535 - fits), true},
		"far too long":            {"a.b", long(65536 - fits), false},
		"a line feed":             {"a.b", "{\n\"x\":1}", false},
		"a carriage return":       {"a.b", "{\"x\":1\r}", false},
		"a tab":                   {"a.b", "{\"x\":\t1}", false},
		"a line feed in a text":   {"a.b", "{\"x\":\"\n\"}", false},
		"DEL":                     {"a.b", "{\"x\":\"\x7f\"}", false},
		"a control of two bytes":  {"a.b", "{\"x\":\"\u0085\"}", false},
		"NUL as an escape":        {"a.b", `{"x":"\u0000"}`, false},
		"NUL behind a backslash":  {"a.b", `{"x":"\\\u0000"}`, false},
		"NUL as an escaped name":  {"a.b", `{"\u0000":1}`, false},
		"no NUL, but its letters": {"a.b", `{"x":"\\u0000"}`, true},
		"an escaped line feed":    {"a.b", `{"x":"\n"}`, true},
		"a wide character":        {"a.b", `{"x":"ż😀"}`, true},
		"a second id":             {"a.b", `{"x":1},"id":"evt_other"`, false},
		"a further member":        {"a.b", `{"x":1},"more":{}`, false},
		"two objects":             {"a.b", `{"x":1}}{"y":{}`, false},
		"a list":                  {"a.b", `[1]`, false},
		"a number":                {"a.b", `1`, false},
		"null":                    {"a.b", `null`, false},
		"nothing":                 {"a.b", ``, false},
		"no JSON":                 {"a.b", `{"x":}`, false},
	} {
		id := testkit.Must(eventlog.NewID())(t)
		if strings.HasSuffix(name, "long") || strings.HasSuffix(name, "longest") {
			id = strings.ReplaceAll(name, " ", "_")[:8]
		}
		outcome, err := appendInSQL(t, pool, id, c.typ, nil, nil, &c.public)
		if taken := err == nil && outcome == "appended"; taken != c.taken {
			t.Errorf("%s: taken %v, want %v: %s %v", name, taken, c.taken, outcome, err)
		}
		if err != nil && !eventlog.Certain(err) {
			t.Errorf("%s: it is not certain that nothing was appended: %v", name, err)
		}
	}
}

// TestAheadOfTheDatabase: no publish time is more than 5 minutes ahead of the database's
// clock, whatever the caller's clock says.
func TestAheadOfTheDatabase(t *testing.T) {
	t.Parallel()
	pool := testkit.Pool(t) // with the database's own clock
	for name, c := range map[string]struct {
		now, created time.Duration
		want         string
	}{
		"a clock that is ahead, and its time": {4 * time.Minute, 8 * time.Minute, "ahead"},
		"a right clock":                       {0, 4 * time.Minute, "appended"},
		"a clock that is behind":              {-4 * time.Minute, 4 * time.Minute, "appended"},
		"too far":                             {0, 6 * time.Minute, "ahead"},
	} {
		at := time.Now()
		outcome, err := appendInSQL(t, pool, testkit.Must(eventlog.NewID())(t), "a.b", at.Add(c.now), at.Add(c.created), nil)
		if err != nil || outcome != c.want {
			t.Errorf("%s: %s %v, want %s", name, outcome, err, c.want)
		}
	}
	var ahead bool
	err := pool.QueryRow(t.Context(), `
		SELECT times[1] > clock_timestamp() FROM log_append('x', clock_timestamp() + interval '4 minutes', NULL, true, ARRAY['e'], ARRAY['a.b'], ARRAY[NULL::timestamptz], ARRAY['{}'], ARRAY[NULL::text], NULL, NULL)`).Scan(&ahead)
	if err != nil || ahead {
		t.Errorf("an entry without a time is dated by a clock that is ahead: %v", err)
	}
}

// TestTrialIsByTheDatabasesClock: a trial refuses what an append would, whatever the caller's clock
// says, and skips an entry that the log holds, however far ahead it is.
func TestTrialIsByTheDatabasesClock(t *testing.T) {
	t.Parallel()
	pool := testkit.Pool(t) // with the database's own clock
	now := time.Now()
	held := client(t, "w", "held", "n")
	held.CreatedAt = now.Add(time.Hour).UTC().Truncate(time.Millisecond)
	restores := newLog(t, eventlog.Config{Pool: pool, Clock: time.Now})
	testkit.Must(restores.Restore(t.Context(), map[string]int64{"w": 1}, held))(t)
	for name, c := range map[string]struct {
		clock, created time.Duration
		refused        bool
	}{
		"a clock that is ahead, and its time": {4 * time.Minute, 8 * time.Minute, true},
		"a clock that is behind":              {-4 * time.Minute, 4 * time.Minute, false},
	} {
		log := newLog(t, eventlog.Config{Pool: pool, Clock: func() time.Time { return time.Now().Add(c.clock) }})
		d := client(t, "other", "e", "n")
		d.CreatedAt = now.Add(c.created)
		verdicts := testkit.Must(log.NewTrial(true).Append(t.Context(), held, d))(t)
		if !verdicts[0].Skipped || verdicts[0].Refused != nil {
			t.Errorf("%s: the entry that the log holds: %+v", name, verdicts[0])
		}
		if got := verdicts[1].Refused; (got != nil) != c.refused || got != nil && !strings.Contains(got.Error(), "5 minutes ahead") {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestFormsInGo: the program says what is wrong before it asks the database.
func TestFormsInGo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := client(t, "w", "e", "n")
	d.Type = "client..recorded"
	if _, err := b.log.Append(t.Context(), d); err == nil || !strings.Contains(err.Error(), `the type "client..recorded" has the wrong form`) {
		t.Errorf("a type with two dots: %v", err)
	}
}

// TestLogWakesByItself: a producer that gives its Log no Notify wakes the processes that serve.
func TestLogWakesByItself(t *testing.T) {
	t.Parallel()
	testkit.Unpooled(t, "a pooler passes no notifications on")
	url := testkit.NewDatabase(t)
	serves := newProcess(t, url)
	serves.run(t)
	heard, done := serves.notifier.Subscribe(eventlog.TopicAppended)
	defer done()
	producer := newLog(t, eventlog.Config{Pool: wide(t, url, 2), Clock: testkit.NewClock(noon).Now})
	testkit.Must(producer.Append(t.Context(), client(t, "w", "e", "n")))(t)
	testkit.Eventually(t, func() error {
		if ids, _ := heard.Take(); !slices.Contains(ids, "w") {
			return errors.New("nobody was told")
		}
		return nil
	})
}

// TestTracesAreBounded: a trace is recorded once for each entry, and for no entry that the
// transaction has not appended.
func TestTracesAreBounded(t *testing.T) {
	t.Parallel()
	pool := testkit.Pool(t)
	if _, err := appendInSQL(t, pool, "before", "a.b", nil, nil, nil); err != nil {
		t.Fatal(err)
	}
	trace := "00-" + strings.Repeat("1", 32) + "-" + strings.Repeat("2", 16) + "-01"
	tx := testkit.Must(pool.Begin(t.Context()))(t)
	defer func() { _ = tx.Rollback(t.Context()) }()
	testkit.Must(tx.Exec(t.Context(), `SELECT log_append('w', clock_timestamp(), NULL, true, ARRAY['own'], ARRAY['a.b'], ARRAY[NULL::timestamptz], ARRAY['{}'], ARRAY[NULL::text], NULL, NULL)`))(t)
	for range 2 {
		testkit.Must(tx.Exec(t.Context(), `
			SELECT log_trace('w', ARRAY['own', 'own', 'before', 'nothing'], ARRAY[$1, replace($1, '2', '3'), $1, $1], ARRAY['appended', 'appended', 'appended', 'appended'])`, trace))(t)
	}
	var rows, own int
	if err := tx.QueryRow(t.Context(), `SELECT count(*), count(*) FILTER (WHERE event_id = 'own') FROM append_trace`).Scan(&rows, &own); err != nil || rows != 1 || own != 1 {
		t.Errorf("%d traces, %d of the entry that was appended, %v", rows, own, err)
	}
}

// TestRefusalsAreCertain: an error with which the database refuses a statement says that
// nothing was appended.
func TestRefusalsAreCertain(t *testing.T) {
	t.Parallel()
	for code, certain := range map[string]bool{
		"25006": true, "22P05": true, "22021": true, "23514": true, "23505": true, "42501": true, "55P03": true, "53100": true, "57014": true, "40001": true,
		"08006": false, "57P01": false, "XX000": false, "40003": false,
	} {
		if got := eventlog.Certain(fmt.Errorf("append: %w", &pgconn.PgError{Code: code, Severity: "ERROR"})); got != certain {
			t.Errorf("%s: %v, want %v", code, got, certain)
		}
	}
	if eventlog.Certain(&pgconn.PgError{Code: "53300", Severity: "FATAL"}) {
		t.Error("the end of a connection says nothing of what was under way")
	}
}
