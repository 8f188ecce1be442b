package console

import (
	"encoding/csv"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/audit"
	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// The audit is filtered by who, what and when, and its pages keep the filter.
func TestAuditFilters(t *testing.T) {
	t.Parallel()
	s := setup(t)
	for range auditPageSize + 1 {
		s.addToAudit(dana, audit.Change{WorkspaceID: acme, Action: audit.KeyRevoke, ObjectName: "Old export"})
	}
	s.addToAudit(audit.Actor{Via: audit.ViaCommand, Name: "root@ledger"}, audit.Change{WorkspaceID: acme, Action: audit.KeyCreate, ObjectName: "Payroll"})
	p := s.signIn(acme, session.Viewer)
	p.get("/audit?who=ROOT").has("Payroll").hasNot("Old export")
	p.get("/audit?what=key.create").has("Payroll", "Download what matches").hasNot("Old export")
	p.get("/audit?since=2999-01-01T00:00").has("No change matches.")
	p.get("/audit?until=2000-01-01T00:00").has("No change matches.")
	older := regexp.MustCompile(`href="(/audit\?cursor=[^"]*)"`).FindStringSubmatch(p.get("/audit?who=dana&what=key.revoke").body)
	if older == nil {
		t.Fatal("there is no older page")
	}
	address := strings.ReplaceAll(older[1], "&amp;", "&")
	if got := strings.Count(p.get(address).has(`value="dana"`).body, "<strong"); got < 1 || !strings.Contains(address, "what=key.revoke") {
		t.Errorf("%s has %d changes", address, got)
	}
	s.signIn(beta, session.Admin).get("/audit?who=dana").hasNot("Old export")
}

// The file has every change that matches, more than are read at a time, and no cell that
// a spreadsheet takes for a formula.
func TestAuditAsFile(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.exec(`INSERT INTO console_audit (workspace_id, at, audit_id, person, issuer, subject, via, action, object_id, object_name, detail)
		SELECT 'acme', now() - make_interval(secs => n), gen_random_uuid(), 'Dana', '', '', 'console', 'key.create', 'key_' || n, 'a "name", with' || chr(10) || 'lines', ''
		  FROM generate_series(1, $1) n`, 2*auditFileStep+5)
	for _, evil := range []string{"=HYPERLINK(1)", "+1", "-1", "@SUM(1)", "\t=1", "\r=1"} {
		s.addToAudit(dana, audit.Change{WorkspaceID: acme, Action: audit.KeyRevoke, ObjectName: evil, Detail: evil})
	}
	s.addToAudit(dana, audit.Change{WorkspaceID: beta, Action: audit.KeyCreate, ObjectName: "secret of beta"})
	p := s.signIn(acme, session.Viewer)
	a := p.get("/audit.csv?what=key.create").status(http.StatusOK).hasNot("secret of beta")
	if !strings.HasPrefix(a.Header.Get("Content-Type"), "text/csv") || !strings.HasPrefix(a.Header.Get("Content-Disposition"), `attachment; filename="audit-acme-`) {
		t.Errorf("headers %v", a.Header)
	}
	rows := testkit.Must(csv.NewReader(strings.NewReader(a.body)).ReadAll())(t)
	ids := map[string]bool{}
	for _, row := range rows[1:] {
		ids[row[6]] = true
		if row[7] != "a \"name\", with\nlines" {
			t.Fatalf("a name is %q", row[7])
		}
	}
	if len(rows) != 2*auditFileStep+6 || len(ids) != len(rows)-1 {
		t.Errorf("%d rows, %d different", len(rows), len(ids))
	}
	for _, row := range testkit.Must(csv.NewReader(strings.NewReader(p.get("/audit.csv?" + url.Values{"what": {"key.revoke"}}.Encode()).body)).ReadAll())(t)[1:] {
		if row[7][0] != '\'' || row[8][0] != '\'' {
			t.Errorf("a spreadsheet takes %q for a formula", row)
		}
	}
	for _, evil := range []string{"x;=HYPERLINK(1)", "x\t=1", "a, b; @SUM(1)", "x;\"=1", "x\n+1", "x;＝1"} {
		s.addToAudit(dana, audit.Change{WorkspaceID: acme, Action: audit.KeyRename, ObjectName: evil})
	}
	for _, separator := range []rune{';', '\t'} { // of spreadsheets in other countries
		opened := csv.NewReader(strings.NewReader(p.get("/audit.csv?what=key.rename").body))
		opened.Comma, opened.LazyQuotes, opened.FieldsPerRecord = separator, true, -1
		for _, row := range testkit.Must(opened.ReadAll())(t) {
			for _, cell := range row {
				if strings.ContainsAny(strings.TrimLeft(cell, ` "`)[:min(1, len(strings.TrimLeft(cell, ` "`)))], "=+-@") {
					t.Errorf("a spreadsheet that separates cells by %q takes %q for a formula", separator, cell)
				}
			}
		}
	}
	if strings.Contains(s.logs.String(), "cannot extend") {
		t.Error("the time for a file is not extended")
	}
	if to := s.stranger().get("/audit.csv").to(); !strings.HasPrefix(to, "/sign-in") {
		t.Errorf("a stranger is led to %s", to)
	}
}
