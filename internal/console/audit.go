package console

import (
	"bufio"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ledgerfeed/ledgerfeed/internal/audit"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
	"github.com/ledgerfeed/ledgerfeed/readapi/wholelist"
)

const (
	auditPageSize = 50   // changes on a page of the audit trail
	auditFileStep = 1000 // changes that are read at a time for a file
)

// auditBody is what the page of the audit trail is made from.
type auditBody struct {
	List         []audit.Change
	Actions      []audit.Action
	Filter       audit.Filter
	Since, Until web.Moment
	File         string // the address of the same list as a file
	web.Pager
}

// Filtered tells whether the list has not all changes.
func (b *auditBody) Filtered() bool { return b.Filter != audit.Filter{} }

// readAuditFilter reads what the page and the file are filtered by.
func readAuditFilter(r *web.Request) *auditBody {
	b := &auditBody{Since: r.QueryMoment("Since", "since"), Until: r.QueryMoment("Until", "until")}
	b.Filter = audit.Filter{Who: r.Query("who"), Action: audit.Action(r.Query("what")), Since: b.Since.At, Until: b.Until.At}
	b.Actions = audit.Actions()
	slices.SortFunc(b.Actions, func(x, y audit.Action) int { return strings.Compare(x.Label(), y.Label()) })
	return b
}

// address is that of a page or file with the same filter.
func (b *auditBody) address(path, cursor string) string {
	return web.Address(path, "who", b.Filter.Who, "what", string(b.Filter.Action), "since", b.Since.UTC(), "until", b.Until.UTC(), "cursor", cursor)
}

func (c *Console) auditPage(r *web.Request) error {
	body, olderThan := readAuditFilter(r), audit.Newest()
	if cursor := r.Query("cursor"); cursor != "" {
		p, err := web.ParseCursor[audit.Position](cursor)
		if err != nil {
			return err
		}
		olderThan, body.Newest = *p, body.address("/audit", "")
	}
	list, next, err := c.trail.Page(r.Context(), r.Session.WorkspaceID, body.Filter, olderThan, auditPageSize)
	if err != nil {
		return err
	}
	body.List, body.File = list, body.address("/audit.csv", "")
	if next != nil {
		body.Older = body.address("/audit", web.FormatCursor(next))
	}
	return r.Show("audit", web.View{Title: "Audit", Section: "audit", Body: body})
}

// auditFile writes the changes of a filter as CSV (RFC 4180), a step at a time, so that
// neither memory nor a connection to the database is in use for the whole of it. A file
// that cannot be finished is broken off, so that it is not taken for a whole one.
func (c *Console) auditFile(r *web.Request) error {
	body, from := readAuditFilter(r), audit.Newest()
	list, next, err := c.trail.Page(r.Context(), r.Session.WorkspaceID, body.Filter, from, auditFileStep)
	if err != nil {
		return err
	}
	r.W.Header().Set("Content-Type", "text/csv; charset=utf-8")
	r.W.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="audit-%s-%s.csv"`, r.Session.WorkspaceID, r.Now.Format("20060102-150405")))
	control := http.NewResponseController(r.W)
	out := bufio.NewWriter(r.W)
	writeRow(out, []string{"at_utc", "who", "via", "subject", "issuer", "action", "object_id", "object_name", "detail"}) // writeChanges tells
	for {
		if gone := !writeChanges(out, list); gone || next == nil {
			return nil
		}
		// Each step has the time that a whole page has.
		if err := control.SetWriteDeadline(time.Now().Add(auditStepTimeout)); err != nil {
			r.Warn("cannot extend the time for a file", err)
		}
		if list, next, err = c.trail.Page(r.Context(), r.Session.WorkspaceID, body.Filter, *next, auditFileStep); err != nil {
			r.Warn("broke off a file of the audit trail", err)
			panic(http.ErrAbortHandler)
		}
	}
}

// writeChanges returns false when the browser has gone away.
func writeChanges(out *bufio.Writer, list []audit.Change) bool {
	for i := range list {
		writeRow(out, auditRow(&list[i])) // Flush tells
	}
	return out.Flush() == nil
}

func writeRow(out *bufio.Writer, cells []string) {
	row := out.AvailableBuffer()
	for i, cell := range cells {
		if i > 0 {
			row = append(row, ',')
		}
		row = wholelist.AppendCell(row, cell)
	}
	_, _ = out.Write(append(row, '\n'))
}

// auditStepTimeout is how long one step of a file may take, with a slow reader.
const auditStepTimeout = time.Minute

func auditRow(c *audit.Change) []string {
	row := []string{
		c.At.Format(time.RFC3339Nano), c.Actor.Name, string(c.Actor.Via), c.Actor.Subject, c.Actor.Issuer,
		string(c.Action), c.ObjectID, c.ObjectName, c.Detail,
	}
	for i, cell := range row {
		row[i] = plainCell(cell)
	}
	return row
}

// formulaInside is what becomes a cell with a formula where a semicolon separates cells, as
// in most of Europe, or a tab: there, a quotation begins at the beginning of a line alone.
var formulaInside = regexp.MustCompile(`([;\t\r\n\x{0085}\x{2028}\x{2029}][ "]*)([=+\-@＝＋－＠])`)

// plainCell keeps spreadsheets from taking a cell for a formula, which could send data
// away when the file is opened.
func plainCell(text string) string {
	text = formulaInside.ReplaceAllString(text, "$1'$2")
	if first, n := utf8.DecodeRuneInString(text); n > 0 && strings.ContainsRune("=+-@\t\r\n＝＋－＠", first) {
		return "'" + text
	}
	return text
}
