package console

import (
	"bufio"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/audit"
	"github.com/ledgerfeed/ledgerfeed/internal/console/pages"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
	"github.com/ledgerfeed/ledgerfeed/readapi/answer"
)

const (
	auditPageSize = 50   // changes per page of the audit trail
	auditFileStep = 1000 // changes read per step of a CSV file
)

// auditBody is the template data of the audit page.
type auditBody struct {
	List         []audit.Change
	Actions      []audit.Action
	Filter       audit.Filter
	Since, Until web.Moment
	File         string // URL of the same list as a CSV file
	web.Pager
}

// Filtered reports whether a filter is set.
func (b *auditBody) Filtered() bool { return b.Filter != audit.Filter{} }

// readAuditFilter reads the filter of the audit page or the CSV file.
func readAuditFilter(r *web.Request) *auditBody {
	b := &auditBody{Since: r.QueryMoment("Since", "since"), Until: r.QueryMoment("Until", "until")}
	b.Filter = audit.Filter{Who: r.Query("who"), Action: audit.Action(r.Query("what")), Since: b.Since.At, Until: b.Until.At}
	b.Actions = audit.Actions()
	slices.SortFunc(b.Actions, func(x, y audit.Action) int { return strings.Compare(x.Label(), y.Label()) })
	return b
}

// address returns the URL of a page or file with the same filter.
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

// auditFile writes the changes that match the filter as CSV (RFC 4180), one step at a time, so that
// a long file keeps neither memory nor a database connection in use. If a later step fails, it
// aborts the response, so that nobody takes a partial file for a complete one.
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
	writeRow(out, []string{"at_utc", "who", "via", "subject", "issuer", "action", "object_id", "object_name", "detail"}) // writeChanges reports a failed write
	for {
		if gone := !writeChanges(out, list); gone || next == nil {
			return nil
		}
		// Each step gets its own write timeout.
		if err := control.SetWriteDeadline(time.Now().Add(auditStepTimeout)); err != nil {
			r.Warn("cannot extend the time for a file", err)
		}
		if list, next, err = c.trail.Page(r.Context(), r.Session.WorkspaceID, body.Filter, *next, auditFileStep); err != nil {
			r.Warn("broke off a file of the audit trail", err)
			panic(http.ErrAbortHandler)
		}
	}
}

// writeChanges writes and flushes the rows. It returns false if the browser has disconnected.
func writeChanges(out *bufio.Writer, list []audit.Change) bool {
	for i := range list {
		writeRow(out, auditRow(&list[i])) // Flush reports a failed write
	}
	return out.Flush() == nil
}

func writeRow(out *bufio.Writer, cells []string) {
	row := out.AvailableBuffer()
	for i, cell := range cells {
		if i > 0 {
			row = append(row, ',')
		}
		row = answer.AppendCell(row, cell)
	}
	_, _ = out.Write(append(row, '\n'))
}

// auditStepTimeout bounds one step of a file, including a slow browser.
const auditStepTimeout = time.Minute

func auditRow(c *audit.Change) []string {
	row := []string{
		c.At.Format(time.RFC3339Nano), c.Actor.Name, string(c.Actor.Via), c.Actor.Subject, c.Actor.Issuer,
		string(c.Action), c.ObjectID, c.ObjectName, c.Detail,
	}
	for i, cell := range row {
		row[i] = pages.NoFormula(cell, false)
	}
	return row
}
