package console

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/brand"
	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

var wholeKey = regexp.MustCompile(`service_[0-9A-Za-z]{8}_[0-9A-Za-z]{38,}`)

func TestKeyIsShownOnce(t *testing.T) {
	t.Parallel()
	s := setup(t)
	p := s.signIn(acme, session.Admin)
	p.get("/keys").status(http.StatusOK).has("No live keys", "Create the first key")
	made := p.post("/keys", url.Values{"name": {"Payroll export"}, "permission": {"invoices:read", "pay:read"}, "expires": {"90"}}).
		status(http.StatusOK).has("shown only once", "curl -s https://api.example.com/v1/me")
	secret := wholeKey.FindString(made.body)
	directory := testkit.Must(access.NewDirectory(access.DirectoryConfig{Pool: s.pool, Format: access.NewFormat(brand.Brand{}), Clock: s.clock.Now}))(t)
	key, err := directory.Authenticate(t.Context(), secret)
	if err != nil {
		t.Fatalf("the key on the page does not work: %v", err)
	}
	if key.WorkspaceID != acme || key.Permissions.String() != "invoices:read,pay:read" || time.Until(key.ExpiresAt).Round(time.Hour) != 90*24*time.Hour {
		t.Errorf("made %+v", key)
	}
	for _, path := range []string{"/keys", "/keys/" + key.ID, "/audit"} {
		p.get(path).status(http.StatusOK).has("Payroll export").hasNot(secret)
	}
	if strings.Contains(s.logs.String(), secret[20:]) {
		t.Error("the key is in the log")
	}

	rotated := p.post("/keys/"+key.ID+"/rotate", url.Values{"overlap": {"1"}}).status(http.StatusOK).has("works until")
	if again := wholeKey.FindString(rotated.body); again == secret || again == "" {
		t.Errorf("rotated to %q", again)
	}
	p.get("/keys/"+key.ID).status(http.StatusOK).has("still works until", "Revoke this key")
	s.signIn(acme, session.Viewer).get("/keys/" + key.ID).status(http.StatusOK).hasNot("Revoke this key")
	p.post("/keys/"+key.ID+"/rotate", url.Values{"overlap": {"25"}}).status(http.StatusUnprocessableEntity)
	p.get("/keys/" + key.ID + "/revoke").status(http.StatusOK).has("Revoke “Payroll export”?")
	to := p.post("/keys/"+key.ID+"/revoke", nil).to()
	p.get(to).status(http.StatusOK).has("The key was revoked", "1 key that has ended")
	p.get("/keys/" + key.ID).hasNot("Revoke this key")
	p.post("/keys/"+key.ID+"/rotate", url.Values{"overlap": {"1"}}).status(http.StatusConflict)
	p.get("/audit").has("Created API key", "Rotated API key", "Revoked API key", "admin@acme.example", "with invoices:read,pay:read")
}

// TestKeyThatIsNotStored: without the row no secret is shown, and the page says what that means.
func TestKeyThatIsNotStored(t *testing.T) {
	t.Parallel()
	s := setup(t)
	old, _ := s.key(acme, "Old", access.EventsRead)
	p := s.signIn(acme, session.Admin)
	form := url.Values{"name": {"Payroll export"}, "permission": {"invoices:read"}, "expires": {"90"}}
	for _, c := range []struct {
		when, does string
		status     int
		says       string
	}{
		{"AFTER INSERT", `RAISE EXCEPTION 'no space left on device' USING ERRCODE = '53100'`, http.StatusServiceUnavailable, "its disk is full, so nothing was changed"},
		{"AFTER INSERT", `RAISE EXCEPTION 'cannot execute INSERT in a read-only transaction' USING ERRCODE = '25006'`, http.StatusServiceUnavailable, "so nothing was changed"},
		{"AFTER INSERT", `RAISE EXCEPTION 'a fault' USING ERRCODE = 'XX001'`, http.StatusInternalServerError, "The secret cannot be shown"},
		{"AT COMMIT", `PERFORM pg_terminate_backend(pg_backend_pid())`, http.StatusInternalServerError, "If it is in the list, nobody has its secret"},
	} {
		s.exec(`CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN ` + c.does + `; RETURN NULL; END $$`)
		if c.when == "AT COMMIT" {
			s.exec(`CREATE CONSTRAINT TRIGGER fails AFTER INSERT ON api_key_secret DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fails()`)
		} else {
			s.exec(`CREATE TRIGGER fails AFTER INSERT ON api_key_secret FOR EACH ROW EXECUTE FUNCTION fails()`)
		}
		for path, sent := range map[string]url.Values{"/keys": form, "/keys/" + old + "/rotate": {"overlap": {"1"}}} {
			page := p.post(path, sent).status(c.status).has(c.says)
			if secret := wholeKey.FindString(page.body); secret != "" {
				t.Errorf("%s: %s shows a secret that is not stored", c.does, path)
			}
		}
		s.exec(`DROP TRIGGER fails ON api_key_secret`)
		s.exec(`DROP FUNCTION fails`)
		p.get("/keys").has("Old").hasNot("Payroll export")
	}
	p.post("/keys", form).status(http.StatusOK).has("shown only once")
}

func TestRequestsTodayBeginAtMidnightUTC(t *testing.T) {
	t.Parallel()
	s := setup(t)
	id, _ := s.key(acme, "Monthly report", access.EventsRead)
	now := s.clock.Now().UTC()
	midnight := now.Truncate(24 * time.Hour)
	s.requestAt(acme, id, now, midnight, midnight.Add(-time.Millisecond), now.Add(-36*time.Hour))
	p := s.signIn(acme, session.Viewer)
	p.get("/keys/"+id).has(`?key=`+id+`">2</a>`, "A day begins at midnight UTC.")
	s.requestAt(acme, id, s.clock.Now())
	p.get("/keys/" + id).has(`?key=` + id + `">3</a>`)
}

// TestKeysAreFoundAndRenamed searches by name and prefix, and gives a key another name.
func TestKeysAreFoundAndRenamed(t *testing.T) {
	t.Parallel()
	s := setup(t)
	payroll, secret := s.key(acme, "Payroll export", access.EventsRead)
	s.key(acme, "Monthly report", access.InvoicesRead)
	s.key(beta, "Payroll of another", access.EventsRead)
	p := s.signIn(acme, session.Admin)
	prefix := secret[:strings.LastIndex(secret, "_")]
	for _, search := range []string{"payROLL", prefix, prefix[:10]} {
		if page := p.get("/keys?search=" + url.QueryEscape(search)); !strings.Contains(page.body, "Payroll export") {
			t.Errorf("%q does not find the key", search)
		}
	}
	p.get("/keys?search="+url.QueryEscape(prefix+"…")).has("Payroll export").hasNot("Monthly report", "another")
	p.get("/keys?search=none").status(http.StatusOK).has("No live key has “none” in its name").hasNot("Payroll export", "Create the first key")

	here := "/keys/" + payroll
	p.get(here + "/rename").status(http.StatusOK).has(`value="Payroll export"`)
	p.post(here+"/rename", url.Values{"name": {strings.Repeat("x", 101)}}).status(http.StatusUnprocessableEntity).has("It must have at most 100 characters.", strings.Repeat("x", 101))
	p.post(here+"/rename", nil).status(http.StatusUnprocessableEntity).has("Enter a name.")
	p.get(p.post(here+"/rename", url.Values{"name": {"Wages"}}).to()).status(http.StatusOK).has("The key was renamed.", ">Wages</h1>")
	p.get("/audit").has("Renamed API key", "name before: &#34;Payroll export&#34;")
	if after := testkit.Must(s.keys.Get(t.Context(), acme, payroll))(t); after.Name != "Wages" || after.Prefix != prefix {
		t.Errorf("renamed to %+v", after)
	}
	s.signIn(acme, session.Viewer).post(here+"/rename", url.Values{"name": {"Mine"}}).status(http.StatusForbidden)
	s.signIn(beta, session.Admin).post(here+"/rename", url.Values{"name": {"Mine"}}).status(http.StatusNotFound)
}

// TestUseOfAKey shows the last request's route and, in the chosen time, the requests, the
// busiest minute beside the limit, and the requests over the limit; those of other keys do
// not count.
func TestUseOfAKey(t *testing.T) {
	t.Parallel()
	s := setup(t)
	id, _ := s.key(acme, "Payroll export", access.EventsRead)
	other, _ := s.key(acme, "Monthly report", access.InvoicesRead)
	idle, _ := s.key(acme, "Idle", access.InvoicesRead)
	now := s.clock.Now().UTC()
	minute := func(back time.Duration, n int) (moments []time.Time) {
		for i := range n {
			moments = append(moments, now.Add(-back).Truncate(time.Minute).Add(time.Duration(i)*100*time.Millisecond))
		}
		return moments
	}
	s.requestAt(acme, id, now)
	s.requestAt(acme, id, minute(10*time.Minute, 3)...)
	s.requestAt(acme, id, minute(2*time.Hour, 12)...)
	s.requestAt(acme, id, minute(3*24*time.Hour, 60)...)
	s.requestAt(acme, id, minute(20*24*time.Hour, 120)...)
	s.requests(acme, other, 300, time.Second)
	s.exec(`UPDATE request_log SET route = '/v1/payments' WHERE key_id = $1 AND at >= $2`, id, now.Add(-time.Second))
	s.exec(`INSERT INTO api_key_use (workspace_id, key_id, last_used_at) VALUES ($1, $2, $4), ($1, $3, $4)`, acme, id, other, now)
	s.refused(acme, id, "rate_limit", now.Add(-10*time.Minute), 4)
	s.refused(acme, id, "expired", now.Add(-10*time.Minute), 50)
	s.refused(acme, other, "rate_limit", now.Add(-10*time.Minute), 60)
	s.refused(acme, id, "rate_limit", now.Add(-3*time.Hour), 1)
	s.refused(acme, id, "rate_limit", now.Add(-25*time.Hour), 70)
	p := s.signIn(acme, session.Viewer)
	for query, want := range map[string]struct{ requests, busiest, share, limited string }{
		"?range=hour":  {"4", "3", "2", "4"},
		"":             {"16", "12", "10", "5"},
		"?range=day":   {"16", "12", "10", "5"},
		"?range=week":  {"76", "60", "50", "75"},
		"?range=month": {"196", "120", "100", "75"},
	} {
		p.get("/keys/"+id+query).status(http.StatusOK).has("GET /v1/payments", "Requests <strong>"+want.requests+"</strong>",
			"Busiest minute <strong>"+want.busiest+" of 120 requests ("+want.share+" %)</strong>", "Over the limit (429) <strong>"+want.limited+"</strong>",
			"Answered <strong>"+want.requests+"</strong>", "Busiest minute (% of the limit) <strong>"+want.share+"</strong>", ": "+want.share+" % at most.",
			`aria-label="Share of the limit in the busiest minute, in the last`)
		p.get("/keys"+query).has(`class="num">`+want.requests+` <span class="about">`+want.limited+` refused</span>`,
			`<span title="`+want.busiest+` of 120 requests">`+want.share+` %</span>`)
	}
	p.get("/keys/" + idle).status(http.StatusOK).has("No requests in this time.").hasNot("Busiest minute <strong>")
	p.get("/keys?search=Payroll&range=week").has(`<input type="hidden" name="range" value="week">`, "range=month&amp;search=Payroll").hasNot("Monthly report")
	s.exec(`UPDATE request_log SET user_agent = 'payroll-export/2.1', address = '198.51.100.7' WHERE key_id = $1 AND at = $2`, id, now)
	p.get("/keys/"+id).has("Who uses it", "payroll-export/2.1", "<code>198.51.100.7</code>", "not named")
	s.signIn(acme, session.Admin).get("/keys/"+id+"/revoke").has("Who uses it", "payroll-export/2.1")
	p.get("/keys/" + idle).hasNot("Who uses it")
	s.exec(`DELETE FROM request_log`) // what was used before the log began
	p.get("/keys").hasNot(`<span class="about">GET`)
	s.signIn(beta, session.Viewer).get("/keys").hasNot("of 120")
}

// TestCallersAroundMidnight: shortly after midnight, those of the day before are shown as well.
func TestCallersAroundMidnight(t *testing.T) {
	t.Parallel()
	s := setup(t)
	id, _ := s.key(acme, "Payroll export", access.EventsRead)
	midnight := s.clock.Now().UTC().Truncate(24 * time.Hour)
	last := midnight.Add(time.Minute)
	s.requestAt(acme, id, last, midnight.Add(-10*time.Minute), midnight.Add(-30*time.Hour))
	s.exec(`UPDATE request_log SET user_agent = CASE WHEN at >= $2 THEN 'today/1' WHEN at >= $2::timestamptz - interval '1 day' THEN 'yesterday/1' ELSE 'before/1' END WHERE key_id = $1`, id, midnight)
	s.exec(`INSERT INTO api_key_use (workspace_id, key_id, last_used_at) VALUES ($1, $2, $3)`, acme, id, last)
	s.signIn(acme, session.Viewer).get("/keys/"+id).has("Who uses it", "today/1", "yesterday/1").hasNot("before/1")
}

// TestKeyPresets begins a key with the permissions of a preset, or with everything of another key.
func TestKeyPresets(t *testing.T) {
	t.Parallel()
	s := setup(t)
	p := s.signIn(acme, session.Admin)
	ticked := regexp.MustCompile(`name="permission" value="([a-z:_]+)" checked`)
	chosen := func(path string) (names []string) {
		for _, m := range ticked.FindAllStringSubmatch(p.get(path).status(http.StatusOK).body, -1) {
			names = append(names, m[1])
		}
		return names
	}
	for preset, want := range map[string]access.Permissions{
		"reporting":  access.PermissionsOf(access.AllPermissions()...) &^ access.PermissionsOf(access.EventsRead, access.PayRead, access.MarginRead),
		"payroll":    access.PermissionsOf(access.InvoicesRead, access.TimeEntriesRead, access.ContractorsRead, access.PaymentsRead, access.PayRead),
		"everything": access.PermissionsOf(access.AllPermissions()...),
		"none":       0,
	} {
		path := "/keys/new?preset=" + preset
		if got := chosen(path); !slices.Equal(got, want.Strings()) {
			t.Errorf("%s ticks %v, want %v", preset, got, want.Strings())
		}
		if page := p.get(path); strings.Contains(page.body, `preset=`+preset+`" aria-current="true"`) != (want != 0) {
			t.Errorf("the page does not say whether %s is chosen", preset)
		}
	}
	p.get("/keys/new").has(`href="/keys/new?preset=payroll"`, "time_entries:read, contractors:read, payments:read, pay:read")

	like, _, err := s.keys.Create(t.Context(), access.NewKey{WorkspaceID: acme, Name: "Wages", Permissions: access.PermissionsOf(access.EventsRead, access.PayRead), RateLimit: 600})
	if err != nil {
		t.Fatal(err)
	}
	path := "/keys/new?like=" + like.ID
	p.get("/keys/" + like.ID).has(`href="` + path + `"`)
	p.get(path).has(`value="Wages"`, "its limit of 600 requests a minute")
	if got := chosen(path); !slices.Equal(got, []string{"events:read", "pay:read"}) {
		t.Errorf("a key like another has %v", got)
	}
	sent := url.Values{"like": {like.ID}, "name": {""}, "permission": {"events:read"}, "expires": {"never"}}
	p.post("/keys", sent).status(http.StatusUnprocessableEntity).has("its limit of 600 requests a minute")
	sent.Set("name", "Wages of May")
	p.post("/keys", sent).status(http.StatusOK)
	for _, k := range testkit.Must(s.keys.List(t.Context(), acme))(t) {
		if k.RateLimit != 600 {
			t.Errorf("%s has a limit of %d", k.Name, k.RateLimit)
		}
	}
	other, _ := s.key(beta, "Theirs", access.EventsRead)
	p.get("/keys/new?like=" + other).status(http.StatusNotFound).hasNot("Theirs")
	sent.Set("like", other)
	p.post("/keys", sent).status(http.StatusNotFound)
	viewer := s.signIn(acme, session.Viewer)
	viewer.get(path).status(http.StatusForbidden)
	viewer.get("/keys/" + like.ID).hasNot("like=")
}

// TestKeyThatOpensNothing warns of one where it was made, in the list and on its page.
func TestKeyThatOpensNothing(t *testing.T) {
	t.Parallel()
	s := setup(t)
	p := s.signIn(acme, session.Admin)
	const warning = "This key gives access to nothing but"
	p.post("/keys", url.Values{"name": {"Pay"}, "permission": {"pay:read", "margin:read"}, "expires": {"90"}}).status(http.StatusOK).has(warning)
	p.post("/keys", url.Values{"name": {"Useful"}, "permission": {"pay:read", "invoices:read"}, "expires": {"90"}}).status(http.StatusOK).hasNot(warning)
	list := testkit.Must(s.keys.List(t.Context(), acme))(t)
	p.get("/keys/" + list[0].ID).has(warning)
	p.get("/keys/" + list[1].ID).hasNot(warning)
	if n := strings.Count(p.get("/keys").body, "no access"); n != 1 {
		t.Errorf("%d keys of the list open nothing, want 1", n)
	}
}

// TestAHundredKeys: the form for a further key is not shown.
func TestAHundredKeys(t *testing.T) {
	t.Parallel()
	s := setup(t)
	for range access.MaxLiveKeys - 1 {
		s.key(acme, "Report", access.InvoicesRead)
	}
	p := s.signIn(acme, session.Admin)
	p.get("/keys/new").status(http.StatusOK).has("Create key")
	last, _ := s.key(acme, "Report", access.InvoicesRead)
	p.get("/keys/new").status(http.StatusConflict).has("has 100 live keys, which is the most it may have. Revoke one first.").hasNot("Create key")
	p.get("/keys?search=none").hasNot("New API key")
	testkit.Must(s.keys.Revoke(t.Context(), acme, last))(t)
	p.get("/keys/new").status(http.StatusOK)
}

func TestKeyFormSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	s := setup(t)
	p := s.signIn(acme, session.Admin)
	for name, c := range map[string]struct {
		form url.Values
		want string
	}{
		"nothing chosen":   {url.Values{"name": {"a"}, "expires": {"never"}}, "Choose at least one permission."},
		"unknown":          {url.Values{"name": {"a"}, "expires": {"never"}, "permission": {"all:write"}}, "Choose at least one permission."},
		"margin alone":     {url.Values{"name": {"a"}, "expires": {"never"}, "permission": {"invoices:read", "margin:read"}}, "which is ticked now as well"},
		"no name":          {url.Values{"expires": {"never"}, "permission": {"invoices:read"}}, "Enter a name."},
		"a day that is no": {url.Values{"name": {"a"}, "expires": {"date"}, "date": {"2020-01-01"}, "permission": {"invoices:read"}}, "not in the past"},
		"no expiry":        {url.Values{"name": {"a"}, "permission": {"invoices:read"}}, "Choose when the key expires."},
	} {
		t.Run(name, func(*testing.T) {
			a := p.post("/keys", c.form).status(http.StatusUnprocessableEntity).has(c.want)
			if c.form.Get("name") != "" {
				a.has(`value="a"`)
			}
		})
	}
	again := p.post("/keys", url.Values{"name": {"a"}, "expires": {"never"}, "permission": {"margin:read"}})
	again.has(`value="pay:read" checked`, `value="margin:read" checked`)
	if list := testkit.Must(s.keys.List(t.Context(), acme))(t); len(list) != 0 {
		t.Errorf("%d keys were made", len(list))
	}
}
