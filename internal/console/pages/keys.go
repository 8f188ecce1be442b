package pages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/rollup"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// Keys serves the pages of API keys.
type Keys struct {
	Pool   pg.DB
	Store  *access.Store
	Counts *rollup.Reader
	APIURL string // for the example with a new key
}

// keyRow is a key as lists show it.
type keyRow struct {
	*access.Record
	State access.State
	Last  keysUse // the last request; empty: the request log has none
	Usage usage   // in the chosen time range
}

// matches reports whether a key's name contains a text, or the prefix of one of its secrets begins
// with it.
func (k keyRow) matches(text string) bool {
	return strings.Contains(strings.ToLower(k.Name), strings.ToLower(text)) || strings.HasPrefix(k.Prefix, text) ||
		slices.ContainsFunc(k.Replaced, func(s access.ReplacedSecret) bool { return strings.HasPrefix(s.Prefix, text) })
}

// listBody is the template data of the list of keys.
type listBody struct {
	Live, Ended []keyRow
	Full        bool // the workspace can have no more keys
	Max         int
	Any         bool   // there are keys, even if the search finds none
	Search      string // in names and prefixes; empty: all keys
	Chosen      web.Choice
	Switch      []web.Link // to other time ranges
}

func (p *Keys) listPage(r *web.Request) error {
	records, err := p.Store.List(r.Context(), r.Session.WorkspaceID)
	if err != nil {
		return err
	}
	// The newest first.
	slices.SortStableFunc(records, func(x, y *access.Record) int { return cmp.Compare(y.CreatedAt.UnixMicro(), x.CreatedAt.UnixMicro()) })
	body := listBody{Max: access.MaxLiveKeys, Any: len(records) > 0, Search: strings.TrimSuffix(r.Query("search"), "…"), Full: full(records, r.Now), Chosen: web.Choose(r.Query("range"), usual)}
	body.Switch = body.Chosen.Switch(func(name string) string { return web.Address("/keys", "search", body.Search, "range", name) })
	var live []string
	for _, k := range records {
		row := keyRow{Record: k, State: k.State(r.Now)}
		switch {
		case !row.matches(body.Search):
		case row.State == access.Live:
			body.Live = append(body.Live, row)
			live = append(live, k.ID)
		default:
			body.Ended = append(body.Ended, row)
		}
	}
	uses, err := lastUses(r.Context(), p.Pool, r.Session.WorkspaceID, live)
	if err != nil {
		return err
	}
	counts, err := p.Counts.KeysByID(r.Context(), r.Session.WorkspaceID, rollup.Last(r.Now, body.Chosen.Width, body.Chosen.Spans), live...)
	if err != nil {
		return err
	}
	for i := range body.Live {
		k := &body.Live[i]
		k.Last, k.Usage = uses[k.ID], usage{counts[k.ID], k.RateLimit}
	}
	return r.Show("keys", web.View{Title: "API keys", Section: "keys", Body: body})
}

// full reports whether a workspace with these keys can have no more.
func full(records []*access.Record, now time.Time) bool {
	live := 0
	for _, k := range records {
		if k.State(now) == access.Live {
			live++
		}
	}
	return live >= access.MaxLiveKeys
}

// permissionRow is a permission as the pages explain it.
type permissionRow struct {
	Name      access.Permission
	Sensitive bool
	Chosen    bool
}

func permissionRows(chosen access.Permissions) []permissionRow {
	var rows []permissionRow
	for _, p := range access.AllPermissions() {
		rows = append(rows, permissionRow{p, web.Sensitive(p), chosen.Has(p)})
	}
	return rows
}

// keyBody is the template data of the pages of one key.
type keyBody struct {
	Key         keyRow
	Today       int64 // requests since midnight, UTC
	Permissions []permissionRow
	Charts      *keysCharts // nil except on the key's own page
	Callers     []caller    // nil on pages that do not show them
	Name        string      // as in the form to rename it
	Fault       string
}

func (p *Keys) body(r *web.Request) (*keyBody, error) {
	k, err := p.Store.Get(r.Context(), r.Session.WorkspaceID, r.Path("key"))
	if err != nil {
		return nil, err
	}
	today, err := p.Counts.KeysByID(r.Context(), r.Session.WorkspaceID, rollup.Last(r.Now, 24*time.Hour, 1), k.ID)
	if err != nil {
		return nil, err
	}
	return &keyBody{
		Key: keyRow{Record: k, State: k.State(r.Now)}, Today: today[k.ID].Requests, Permissions: permissionRows(k.Permissions), Name: k.Name,
	}, nil
}

// keyPage shows a key and its use.
func (p *Keys) keyPage(r *web.Request) error {
	body, err := p.body(r)
	if err != nil {
		return err
	}
	uses, err := lastUses(r.Context(), p.Pool, r.Session.WorkspaceID, []string{body.Key.ID})
	if err != nil {
		return err
	}
	body.Key.Last = uses[body.Key.ID]
	if body.Callers, err = callersOf(r.Context(), p.Pool, r.Session.WorkspaceID, body.Key.ID); err != nil {
		return err
	}
	if body.Charts, err = p.charts(r, body.Key.Record); err != nil {
		return err
	}
	return showKey(r, http.StatusOK, "key", body)
}

// page returns a handler for one of the pages of one key.
func (p *Keys) page(name string) web.Handler {
	return func(r *web.Request) error {
		body, err := p.body(r)
		if err != nil {
			return err
		}
		return showKey(r, http.StatusOK, name, body)
	}
}

// revokePage asks whether to revoke a key, and shows who uses it.
func (p *Keys) revokePage(r *web.Request) error {
	body, err := p.body(r)
	if err != nil {
		return err
	}
	if body.Callers, err = callersOf(r.Context(), p.Pool, r.Session.WorkspaceID, body.Key.ID); err != nil {
		return err
	}
	return showKey(r, http.StatusOK, "key-revoke", body)
}

func showKey(r *web.Request, status int, name string, body *keyBody) error {
	return r.ShowStatus(status, name, web.View{Title: body.Key.Name, Section: "keys", Body: body})
}

const (
	// callerRequests is how many requests are read to find who uses a key.
	callerRequests = 500
	// maxCallers is how many callers are shown.
	maxCallers = 5
)

// caller is a program that uses a key, as far as its requests show.
type caller struct {
	UserAgent string // empty: none sent
	Address   string // empty: not kept
	Requests  int64
	Last      time.Time
}

// callersOf returns the callers of the last requests of a key on the day (UTC) of its last use, the
// latest first.
func callersOf(ctx context.Context, pool pg.DB, workspaceID, keyID string) ([]caller, error) {
	list, err := pg.Collect(ctx, pool, pgx.RowToStructByPos[caller], `
		SELECT coalesce(r.user_agent, ''), coalesce(host(r.address), ''), count(*), max(r.at)
		  FROM api_key_use u
		 CROSS JOIN LATERAL (
		       SELECT l.user_agent, l.address, l.at FROM request_log l
		        WHERE l.slot IN (`+slotOf("u.last_used_at")+`, `+slotOf("u.last_used_at - interval '1 day'")+`)
		          AND l.workspace_id = u.workspace_id AND l.key_id = u.key_id AND l.at >= u.last_used_at - interval '1 day'
		        ORDER BY l.at DESC LIMIT $3) r
		 WHERE u.workspace_id = $1 AND u.key_id = $2
		 GROUP BY 1, 2 ORDER BY 4 DESC LIMIT $4`, workspaceID, keyID, callerRequests, maxCallers)
	if err != nil {
		return nil, fmt.Errorf("cannot look for the callers of a key: %w", err)
	}
	return list, nil
}

// keysUse is the last request of a key that the request log still has.
type keysUse struct{ Method, Route string }

// slotOf is the partition of the request log that has the day of a time.
func slotOf(at string) string {
	return `(floor(extract(epoch FROM ` + at + `) / 86400)::bigint % 32)::smallint`
}

// lastUses returns the last request of each key, if the log still has it. The time of last use,
// precise to the minute, tells which partition of the log has that day, so each key costs one
// lookup in one index.
func lastUses(ctx context.Context, pool pg.DB, workspaceID string, keyIDs []string) (map[string]keysUse, error) {
	var (
		found = map[string]keysUse{}
		id    string
		last  keysUse
	)
	err := pg.ForEach(ctx, pool, `
		SELECT u.key_id, r.method, r.route
		  FROM api_key_use u
		 CROSS JOIN LATERAL (
		       SELECT l.method, l.route FROM request_log l
		        WHERE l.slot = `+slotOf("u.last_used_at")+`
		          AND l.workspace_id = u.workspace_id AND l.key_id = u.key_id AND l.at >= u.last_used_at - interval '1 minute'
		        ORDER BY l.at DESC LIMIT 1) r
		 WHERE u.workspace_id = $1 AND u.key_id = ANY ($2)`, []any{workspaceID, keyIDs}, []any{&id, &last.Method, &last.Route}, func() error {
		found[id] = last
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot look for the last requests of keys: %w", err)
	}
	return found, nil
}

// usual is the time range that the pages show by default.
const usual = "day"

// usage is how much of its limit a key used.
type usage struct {
	rollup.KeyUse
	Limit int // requests a minute
}

// Share returns how much of the limit the busiest minute used, in per cent.
func (u usage) Share() int64 { return share(u.Peak, u.Limit) }

// share returns n as a percentage of the limit, rounded down, but 0 only if n is 0.
func share(n int64, limit int) int64 {
	if n == 0 {
		return 0
	}
	return max(n*100/int64(max(limit, 1)), 1)
}

// keysCharts shows the use of a key in the chosen time range.
type keysCharts struct {
	usage
	Busiest  time.Time // start of the bar with the busiest minute
	Switch   []web.Link
	Requests *web.Chart
	Shares   *web.Chart // percentage of the limit in the busiest minute of each bar
}

func (p *Keys) charts(r *web.Request, k *access.Record) (*keysCharts, error) {
	chosen := web.Choose(r.Query("range"), usual)
	in := rollup.Last(r.Now, chosen.Width, chosen.Spans)
	spans, err := p.Counts.Key(r.Context(), r.Session.WorkspaceID, in, k.ID)
	if err != nil {
		return nil, err
	}
	series := []web.Series{{Name: "Over the limit (429)", Look: web.Stripes}, {Name: "Answered", Look: web.Good}}
	bars, shares := web.Empty(in.From, in.Width, in.Spans, len(series)), web.Empty(in.From, in.Width, in.Spans, 1)
	c := &keysCharts{usage: usage{rollup.KeyUse{KeyID: k.ID}, k.RateLimit}}
	c.Switch = chosen.Switch(func(name string) string { return web.Address("/keys/"+url.PathEscape(k.ID), "range", name) + "#use" })
	for _, s := range spans {
		bars[s.Span].Counts = []int64{s.RateLimited, s.Requests}
		shares[s.Span].Counts = []int64{share(s.Peak, k.RateLimit)}
		c.KeyUse.Requests += s.Requests
		c.RateLimited += s.RateLimited
		if s.Peak > c.Peak {
			c.Peak, c.Busiest = s.Peak, bars[s.Span].At
		}
	}
	days := in.Width > time.Hour
	c.Requests = web.New("use", "Requests "+chosen.Title, "requests", bars, series).ByDay(days)
	c.Shares = web.NewShares("shares", "Share of the limit in the busiest minute, "+chosen.Title, "requests", shares,
		web.Series{Name: "Busiest minute (% of the limit)", Look: web.Good}).ByDay(days)
	return c, nil
}

// form is the form of a new key, as it was sent, with its faults.
type form struct {
	Name        string
	Permissions []permissionRow
	Expires     string // never, a number of days, or date
	Date        string // the last day on which it works, when Expires is date
	Presets     []preset
	Like        *access.Record // the key that the new one is like, whose limit it gets; nil: none
	Faults      web.Faults
	Restored    bool // from a draft
}

// Preset is the preset whose permissions are chosen.
func (f *form) Preset() string {
	for _, p := range f.Presets {
		if slices.Equal(f.Permissions, permissionRows(p.Permissions)) {
			return p.Name
		}
	}
	return ""
}

// preset is a choice of permissions that many programs need.
type preset struct {
	Name, Title string
	Permissions access.Permissions
}

// presets returns the presets, with the permissions that a person may give.
func presets(seesPay bool) []preset {
	may := web.PermissionsOf(seesPay)
	return []preset{
		{"reporting", "Reporting", may & access.PermissionsOf(access.InvoicesRead, access.TimeEntriesRead, access.ClientsRead,
			access.CreditsRead, access.ContractorsRead, access.PaymentsRead)},
		{"payroll", "Payroll", may & access.PermissionsOf(access.InvoicesRead, access.TimeEntriesRead, access.ContractorsRead,
			access.PaymentsRead, access.PayRead)},
		{"everything", "Everything readable", may},
	}
}

// begin returns the form as the address asks for it: with a preset, or like another key. A preset that
// does not exist gives an empty form.
func (p *Keys) begin(r *web.Request) (*form, error) {
	f := &form{Expires: "365"}
	chosen := access.Permissions(0)
	if err := p.readLike(r, f, r.Query("like")); err != nil {
		return nil, err
	}
	if f.Like != nil {
		f.Name, chosen = f.Like.Name, f.Like.Permissions&web.PermissionsOf(r.Session.MaySeePay())
	}
	for _, preset := range presets(r.Session.MaySeePay()) {
		if preset.Name == r.Query("preset") {
			chosen = preset.Permissions
		}
	}
	f.Permissions = permissionRows(chosen)
	return f, nil
}

// readLike reads the key that the new one is like; an empty id: there is none.
func (p *Keys) readLike(r *web.Request, f *form, id string) (err error) {
	if id != "" {
		f.Like, err = p.Store.Get(r.Context(), r.Session.WorkspaceID, id)
	}
	return err
}

// fullText is the fault of a new key in a workspace with the maximum number of keys.
func fullText() string {
	return "This workspace has " + web.Count(access.MaxLiveKeys) + " live keys, which is the most it may have. Revoke one first."
}

func showForm(r *web.Request, status int, f *form) error {
	f.Presets = presets(r.Session.MaySeePay())
	return r.ShowStatus(status, "key-new", web.View{Title: "New API key", Section: "keys", Body: f})
}

// readForm reads the form and returns the chosen permissions.
func readForm(r *web.Request) (f *form, chosen access.Permissions, err error) {
	f = &form{Name: r.Field("name"), Expires: r.Field("expires"), Date: r.Field("date"), Faults: web.Faults{}}
	chosen, err = access.ParsePermissions(r.PostForm["permission"])
	var invalid *access.InvalidError
	switch {
	case errors.As(err, &invalid):
		f.Faults["permissions"] = "Choose at least one permission."
		chosen = access.PermissionsOf(named(r.PostForm["permission"])...)
		if chosen.Has(access.MarginRead) {
			// pay:read is ticked, but never granted without the person's consent.
			chosen |= access.PermissionsOf(access.PayRead)
			f.Faults["permissions"] = "margin:read needs pay:read, which is ticked now as well. Check it and create the key again."
		}
	case err != nil:
		return nil, 0, err
	}
	f.Permissions = permissionRows(chosen)
	return f, chosen, nil
}

func named(names []string) []access.Permission {
	list := make([]access.Permission, len(names))
	for i, n := range names {
		list[i] = access.Permission(n)
	}
	return list
}

// expiry returns when the key expires: after some days, or at the end of a day; zero: never, or
// there is a fault.
func (f *form) expiry(now time.Time) time.Time {
	switch f.Expires {
	case "never":
		return time.Time{}
	case "date":
		day, err := time.Parse(time.DateOnly, f.Date)
		if err != nil || !day.AddDate(0, 0, 1).After(now) {
			f.Faults["expires"] = "Choose a day that is not in the past."
			return time.Time{}
		}
		return day.AddDate(0, 0, 1)
	}
	days, err := strconv.Atoi(f.Expires)
	if err != nil || days < 1 || days > 3650 {
		f.Faults["expires"] = "Choose when the key expires."
		return time.Time{}
	}
	return now.AddDate(0, 0, days)
}

// problemOf says what to do about what the store found wrong with a key of this name.
func problemOf(invalid *access.InvalidError, name string) string {
	if invalid.Field == "name" && name == "" {
		return enterName
	}
	return "It " + invalid.Problem + "."
}

// addFaults adds the faults that the store found. It returns false if there are none, or err is
// about something else.
func (f *form) addFaults(err error) bool {
	var tooMany *access.TooManyKeysError
	if errors.As(err, &tooMany) {
		f.Faults["form"] = fullText()
		return true
	}
	found := false
	for _, one := range web.Joined(err) {
		var invalid *access.InvalidError
		if !errors.As(one, &invalid) {
			continue
		}
		found = true
		field := map[string]string{"name": "name", "scopes": "permissions", "expires": "expires"}[invalid.Field]
		if field == "" {
			field = "form"
		}
		f.Faults[field] = problemOf(invalid, f.Name)
	}
	return found
}

// secretBody is the template data of the only page that shows a key's secret.
type secretBody struct {
	Key     *access.Record
	Secret  string
	URL     string
	Rotated bool
	OldEnds time.Time // when the previous secret ends; zero: it has ended
}

func (p *Keys) showSecret(r *web.Request, body secretBody) error {
	body.URL = p.APIURL
	if err := r.Show("key-shown", web.View{Title: "Your new API key", Section: "keys", Body: body}); err != nil {
		return lostSecret(err)
	}
	return nil
}

// unsure is the error of making a secret. When it leaves open whether the secret was stored, the
// page says how to go on.
func unsure(err error) error {
	if !web.Unexplained(err) || pg.Refused(err) {
		return err
	}
	return lostSecret(err)
}

// lostSecret is the page for a secret that may be stored, and that nobody can see.
func lostSecret(err error) error {
	return fmt.Errorf("%w: %w", &web.PageError{
		Status: http.StatusInternalServerError, Title: "The secret cannot be shown", Back: "/keys",
		Text: "The key may have been stored all the same. If it is in the list, nobody has its secret: rotate it, or revoke it and create another.",
	}, err)
}

func (p *Keys) newPage(r *web.Request) error {
	records, err := p.Store.List(r.Context(), r.Session.WorkspaceID)
	if err != nil {
		return err
	}
	if full(records, r.Now) {
		return &web.PageError{Status: http.StatusConflict, Title: "No further key", Text: fullText(), Back: "/keys"}
	}
	if r.RestoreDraft() {
		f, _, err := readForm(r)
		if err != nil {
			return err
		}
		if err := p.readLike(r, f, r.Field("like")); err != nil {
			return err
		}
		f.Faults, f.Restored = nil, true
		return showForm(r, http.StatusOK, f)
	}
	f, err := p.begin(r)
	if err != nil {
		return err
	}
	return showForm(r, http.StatusOK, f)
}

func (p *Keys) create(r *web.Request) error {
	f, chosen, err := readForm(r)
	if err != nil {
		return err
	}
	if err := p.readLike(r, f, r.Field("like")); err != nil {
		return err
	}
	n := access.NewKey{WorkspaceID: r.Session.WorkspaceID, Name: f.Name, Permissions: chosen, ExpiresAt: f.expiry(r.Now)}
	if f.Like != nil {
		n.RateLimit = f.Like.RateLimit
	}
	f.addFaults(access.CheckName(f.Name)) // checked here, because other faults keep the store from seeing it
	if len(f.Faults) > 0 {
		return showForm(r, http.StatusUnprocessableEntity, f)
	}
	k, secret, err := p.Store.Create(r.Context(), n)
	if f.addFaults(err) {
		return showForm(r, http.StatusUnprocessableEntity, f)
	}
	if err != nil {
		return unsure(err)
	}
	return p.showSecret(r, secretBody{Key: k, Secret: secret.Reveal()})
}

func (p *Keys) rotate(r *web.Request) error {
	hours, err := strconv.Atoi(r.Field("overlap"))
	if err != nil || hours < 0 || hours > int(access.MaxOverlap/time.Hour) {
		body, err := p.body(r)
		if err != nil {
			return err
		}
		body.Fault = "Choose 0 to 24 hours."
		return showKey(r, http.StatusUnprocessableEntity, "key-rotate", body)
	}
	overlap := time.Duration(hours) * time.Hour
	k, secret, err := p.Store.Rotate(r.Context(), r.Session.WorkspaceID, r.Path("key"), overlap)
	if err != nil {
		return unsure(err)
	}
	body := secretBody{Key: k, Secret: secret.Reveal(), Rotated: true}
	if overlap > 0 && len(k.Replaced) > 0 {
		body.OldEnds = k.Replaced[0].EndsAt
	}
	return p.showSecret(r, body)
}

func (p *Keys) rename(r *web.Request) error {
	name := r.Field("name")
	_, err := p.Store.Rename(r.Context(), r.Session.WorkspaceID, r.Path("key"), name)
	var invalid *access.InvalidError
	if errors.As(err, &invalid) {
		body, err := p.body(r)
		if err != nil {
			return err
		}
		body.Name, body.Fault = name, problemOf(invalid, name)
		return showKey(r, http.StatusUnprocessableEntity, "key-rename", body)
	}
	if err != nil {
		return err
	}
	return r.Redirect("/keys/" + url.PathEscape(r.Path("key")) + "?did=key-renamed")
}

func (p *Keys) revoke(r *web.Request) error {
	if _, err := p.Store.Revoke(r.Context(), r.Session.WorkspaceID, r.Path("key")); err != nil {
		return err
	}
	return r.Redirect("/keys?did=key-revoked")
}

// Routes returns the routes of the pages.
func (p *Keys) Routes() []web.Route {
	return []web.Route{
		{Method: http.MethodGet, Pattern: "/keys", Access: web.SignedIn, Handle: p.listPage},
		{Method: http.MethodGet, Pattern: "/keys/new", Access: web.Admin, Handle: p.newPage},
		{Method: http.MethodPost, Pattern: "/keys", Access: web.Admin, Handle: p.create},
		{Method: http.MethodGet, Pattern: "/keys/{key}", Access: web.SignedIn, Handle: p.keyPage},
		{Method: http.MethodGet, Pattern: "/keys/{key}/rename", Access: web.Admin, Handle: p.page("key-rename")},
		{Method: http.MethodPost, Pattern: "/keys/{key}/rename", Access: web.Admin, Handle: p.rename},
		{Method: http.MethodGet, Pattern: "/keys/{key}/rotate", Access: web.Admin, Handle: p.page("key-rotate")},
		{Method: http.MethodPost, Pattern: "/keys/{key}/rotate", Access: web.Admin, Handle: p.rotate},
		{Method: http.MethodGet, Pattern: "/keys/{key}/revoke", Access: web.Admin, Handle: p.revokePage},
		{Method: http.MethodPost, Pattern: "/keys/{key}/revoke", Access: web.Admin, Handle: p.revoke},
	}
}
