package pages

import (
	"cmp"
	"net/http"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
	"github.com/ledgerfeed/ledgerfeed/readapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/route"
)

// Data serves the page of the workspace's data: the lists of the API, as files for people.
type Data struct {
	Reader *readapi.Reader // reads what API callers get
}

// Routes returns the routes of the pages.
func (p *Data) Routes() []web.Route {
	return []web.Route{
		{Method: http.MethodGet, Pattern: "/data", Access: web.SignedIn, Handle: p.listPage},
		{Method: http.MethodGet, Pattern: FilePattern, Access: web.SignedIn, Handle: p.file},
	}
}

// FilePattern is the route pattern of files, which are not pages.
const FilePattern = "/data/{file}"

// list is a list that can be downloaded.
type list struct {
	Name, Description string
	File              string // such as invoices.csv
	path              string // in the API
}

// contents describes what is in a list, for people who do not know the API.
func contents(path string) string {
	switch path {
	case "/v1/invoices":
		return "Invoices, packages and credit notes, without drafts."
	case "/v1/charges":
		return "Charges, without those that were removed."
	case "/v1/payments":
		return "Payments that the accounting system has confirmed."
	case "/v1/time-entries":
		return "Time entries, without those that were deleted."
	case "/v1/contractors":
		return "Contractors, one row each."
	case "/v1/clients":
		return "Clients with their contacts, one row each."
	case "/v1/credits":
		return "What each client has paid in advance and not used up."
	case "/v1/credit-history":
		return "Every movement of client credit, oldest first."
	}
	return ""
}

// lists returns the lists of rows, in the order of the API's description.
func lists() []list {
	var all []list
	for _, r := range route.Table() {
		if r.Kind == route.Rows {
			name := strings.TrimPrefix(r.Path, "/v1/")
			all = append(all, list{Name: strings.TrimPrefix(r.Summary, "List "), Description: cmp.Or(contents(r.Path), r.Description), File: name + ".csv", path: r.Path})
		}
	}
	return all
}

type dataListBody struct {
	Lists   []list
	SeesPay bool
}

func (p *Data) listPage(r *web.Request) error {
	body := &dataListBody{Lists: lists(), SeesPay: r.Session.MaySeePay()}
	for i := range body.Lists {
		body.Lists[i].Name = strings.ToUpper(body.Lists[i].Name[:1]) + body.Lists[i].Name[1:]
	}
	return r.Show("data", web.View{Title: "Data", Section: "data", Body: body})
}

// file answers with a list as CSV, as a key with the session's permissions would get it, but
// changes text that a spreadsheet would take for a formula.
func (p *Data) file(r *web.Request) error {
	for _, l := range lists() {
		if l.File != r.Path("file") {
			continue
		}
		name := r.Session.WorkspaceID + "-" + strings.TrimSuffix(l.File, ".csv") + "-" + r.Now.Format("20060102-150405") + ".csv"
		status, err := p.Reader.File(r.Context(), readapi.Ask{
			WorkspaceID: r.Session.WorkspaceID, Permissions: web.PermissionsOf(r.Session.MaySeePay()), Path: l.path,
		}, name, r.W)
		if err != nil || status == http.StatusOK {
			return err
		}
		return busy(status)
	}
	return web.ErrNotFound
}

// busy returns the page for a download that cannot start.
func busy(status int) error {
	text := "The list cannot be read at the moment. Try again in a minute."
	if status == http.StatusTooManyRequests {
		text = "Somebody is downloading a list of this workspace already. Try again when that has ended."
	}
	return &web.PageError{Status: cmp.Or(status, http.StatusServiceUnavailable), Title: "No download now", Text: text}
}
