package console

import (
	"net/http"
	"net/url"
	"regexp"
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
		status(http.StatusOK).has("shown this once", "curl -s https://api.example.com/v1/me")
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
	p.get("/keys/" + key.ID).status(http.StatusOK).has("still works until")
	p.post("/keys/"+key.ID+"/rotate", url.Values{"overlap": {"25"}}).status(http.StatusUnprocessableEntity)
	p.get("/keys/" + key.ID + "/revoke").status(http.StatusOK).has("Revoke “Payroll export”?")
	to := p.post("/keys/"+key.ID+"/revoke", nil).to()
	p.get(to).status(http.StatusOK).has("The key was revoked", "1 key that has ended")
	p.post("/keys/"+key.ID+"/rotate", url.Values{"overlap": {"1"}}).status(http.StatusConflict)
	p.get("/audit").has("Created API key", "Rotated API key", "Revoked API key", "admin@acme.example", "with invoices:read,pay:read")
}

func TestRequestsTodayBeginAtMidnightUTC(t *testing.T) {
	t.Parallel()
	s := setup(t)
	id, _ := s.key(acme, "Monthly report", access.EventsRead)
	now := s.clock.Now().UTC()
	midnight := now.Truncate(24 * time.Hour)
	s.requestAt(acme, id, now, midnight, midnight.Add(-time.Millisecond), now.Add(-36*time.Hour))
	p := s.signIn(acme, session.Viewer)
	p.get("/keys").has(`<td data-label="Requests today" class="num">2</td>`)
	p.get("/keys/" + id).has(`">2</a> <span class="muted">since midnight UTC`)
	s.requestAt(acme, id, s.clock.Now())
	p.get("/keys/" + id).has(`">3</a> <span class="muted">since midnight UTC`)
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
		"no name":          {url.Values{"expires": {"never"}, "permission": {"invoices:read"}}, "It must not be empty."},
		"a day that is no": {url.Values{"name": {"a"}, "expires": {"date"}, "date": {"2020-01-01"}, "permission": {"invoices:read"}}, "not in the past"},
		"no expiry":        {url.Values{"name": {"a"}, "permission": {"invoices:read"}}, "Choose when the key ends."},
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
