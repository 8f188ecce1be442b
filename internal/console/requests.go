package console

import (
	"net/url"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/ledgerfeed/ledgerfeed/internal/audit"
)

// requestsShown is how many requests a page lists.
const requestsShown = 50

// requestRow is a request as the log keeps it.
type requestRow struct {
	At       time.Time
	RecordID uuid.UUID
	ID       string // of X-Request-Id
	KeyID    string
	Prefix   string
	Method   string
	Route    string // pattern; empty: an unknown path
	Status   int
	Micros   int64
	Bytes    int64
	Rows     int64
	KeyName  string // "" for one that is not known any more
}

// Place is where the page of the request is.
func (r *requestRow) Place() string { return formatCursor(requestPlace{r.At, r.RecordID}) }

// Millis is how long it took.
func (r *requestRow) Millis() float64 { return float64(r.Micros) / 1000 }

// Look is the badge of its status.
func (r *requestRow) Look() string {
	switch {
	case r.Status >= 500:
		return "bad"
	case r.Status >= 400:
		return "warn"
	}
	return "good"
}

// requestPlace is where a page of the log ended, and what names one request.
type requestPlace struct {
	At time.Time `json:"a"`
	ID uuid.UUID `json:"i"`
}

// refusedRow is how many requests were refused for a reason.
type refusedRow struct {
	Reason string
	Count  int64
}

// Words says what the reason means.
func (r refusedRow) Words() string {
	switch r.Reason {
	case "rate_limit":
		return "Over the key's limit (429)"
	case "revoked":
		return "With a revoked key (401)"
	case "expired":
		return "With an expired key (401)"
	case "rotated":
		return "With a secret that was rotated (401)"
	case "slow_down":
		return "Too many refused keys from one address (429)"
	case "key_in_url":
		return "With the key in the address (400)"
	case "method":
		return "With another method than GET (405)"
	}
	return r.Reason
}

// requestsBody is what the request log is made from.
type requestsBody struct {
	List     []requestRow
	Chart    *chart
	Range    string // of the chart: hour or day
	Refused  []refusedRow
	Key      string // the filters
	Status   string
	Statuses []headerRow
	Keys     []headerRow // id and name
	Here     string
	HourURL  string
	DayURL   string
	pager
}

// Filtered tells that only some requests are asked for.
func (b *requestsBody) Filtered() bool { return b.Key != "" || b.Status != "" }

func (c *Console) requestsPage(a *ask) error {
	body := &requestsBody{Range: "hour", Statuses: []headerRow{{"2", "Succeeded (2xx, 3xx)"}, {"4", "Client errors (4xx)"}, {"5", "Server errors (5xx)"}}}
	names, err := c.keyNames(a, body)
	if err != nil {
		return err
	}
	if a.query("range") == "day" {
		body.Range = "day"
	}
	if key := a.query("key"); names[key] != "" {
		body.Key = key
	}
	if s := a.query("status"); slices.ContainsFunc(body.Statuses, func(o headerRow) bool { return o.Name == s }) {
		body.Status = s
	}
	q := requestQuery{workspaceID: a.session.WorkspaceID, keyID: body.Key, class: body.Status, limit: requestsShown, after: requestPlace{At: endOfTime()}}
	if cursor := a.query("cursor"); cursor != "" {
		after, err := parseCursor[requestPlace](cursor)
		if err != nil {
			return err
		}
		q.after = *after
	}
	var more bool
	if body.List, more, err = c.history.requests(a.ctx, q); err != nil {
		return err
	}
	for i := range body.List {
		body.List[i].KeyName = names[body.List[i].KeyID]
	}
	body.links(q.after.ID == uuid.Nil, more)
	if body.Refused, err = c.history.refused(a.ctx, a.session.WorkspaceID); err != nil {
		return err
	}
	if body.Chart, err = c.requestsChart(a, body.Range); err != nil {
		return err
	}
	return c.show(a, "requests", view{Title: "Request log", Section: "requests", Body: body})
}

// keyNames gives the names of the workspace's keys by id, and the choice of
// them.
func (c *Console) keyNames(a *ask, body *requestsBody) (map[string]string, error) {
	records, err := c.cfg.Keys.List(a.ctx, a.session.WorkspaceID)
	if err != nil {
		return nil, err
	}
	names := map[string]string{}
	for _, r := range records {
		names[r.ID] = r.Name
		body.Keys = append(body.Keys, headerRow{r.ID, r.Name})
	}
	return names, nil
}

// links makes the addresses of the pages around this one, which is the first
// one or not, and has more after it or not.
func (b *requestsBody) links(first, more bool) {
	filters := url.Values{}
	set(filters, "key", b.Key)
	set(filters, "status", b.Status)
	b.HourURL = addressOf("/requests", filters)
	filters.Set("range", "day")
	b.DayURL = addressOf("/requests", filters)
	if b.Range == "hour" {
		filters.Del("range")
	}
	b.Here = addressOf("/requests", filters)
	if !first {
		b.Newest = b.Here
	}
	if more {
		filters.Set("cursor", b.List[len(b.List)-1].Place())
		b.Older = addressOf("/requests", filters)
	}
}

func (c *Console) requestsChart(a *ask, span string) (*chart, error) {
	kinds := []series{{Name: "Succeeded", Look: lookGood}, {Name: "Client errors", Look: lookWait}, {Name: "Server errors", Look: lookBad}, {Name: "Refused", Look: lookQuiet}}
	if span == "day" {
		bars, err := c.history.requestsOfDay(a.ctx, a.session.WorkspaceID)
		if err != nil {
			return nil, err
		}
		return newChart("requests", "Requests in the last 24 hours, by quarter of an hour", "requests", bars, kinds), nil
	}
	bars, err := c.history.requestsOfHour(a.ctx, a.session.WorkspaceID)
	if err != nil {
		return nil, err
	}
	return newChart("requests", "Requests per minute in the last hour", "requests", bars, kinds), nil
}

func (c *Console) requestPage(a *ask) error {
	place, err := parseCursor[requestPlace](a.path("record"))
	if err != nil {
		return errNotHere
	}
	r, err := c.history.request(a.ctx, a.session.WorkspaceID, *place)
	if err != nil {
		return err
	}
	names, err := c.keyNames(a, &requestsBody{})
	if err != nil {
		return err
	}
	r.KeyName = names[r.KeyID]
	return c.show(a, "request", view{Title: "Request", Section: "requests", Body: r})
}

// auditShown is how many changes a page lists.
const auditShown = 50

// auditBody is what the audit is made from.
type auditBody struct {
	List []audit.Change
	pager
}

func (c *Console) auditPage(a *ask) error {
	body, olderThan := auditBody{}, audit.Newest()
	if cursor := a.query("cursor"); cursor != "" {
		p, err := parseCursor[audit.Position](cursor)
		if err != nil {
			return err
		}
		olderThan, body.Newest = *p, "/audit"
	}
	list, next, err := c.cfg.Audit.Page(a.ctx, a.session.WorkspaceID, olderThan, auditShown)
	if err != nil {
		return err
	}
	body.List = list
	if next != nil {
		body.Older = addressOf("/audit", url.Values{"cursor": {formatCursor(next)}})
	}
	return c.show(a, "audit", view{Title: "Audit", Section: "audit", Body: body})
}
