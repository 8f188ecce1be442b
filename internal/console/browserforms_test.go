//go:build outside

package console

import (
	"strings"
	"testing"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/ledgerfeed/ledgerfeed/internal/audit"
	"github.com/ledgerfeed/ledgerfeed/internal/console/session"
)

// TestBrowserFaults sends forms with several faults, with and without scripts: the
// first faulty field has the focus, and the summary leads to the others.
func TestBrowserFaults(t *testing.T) {
	t.Parallel()
	s := setup(t)
	for _, scripts := range []bool{true, false} {
		b := s.enter(acme, session.Admin)
		b.visit("/keys/new")
		if !scripts {
			b.do(call(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}))
		}
		b.press("Create key")
		b.sees("Not saved. Fix 2 fields below.")
		b.until("the name has the focus", `document.activeElement.id === "name"`)
		if scripts { // axe is one
			b.judge("a form with faults")
			b.picture("key-new-faults")
		}
		b.press("Permissions")
		b.until("the permissions have the focus", `document.activeElement.id === "permissions" || location.hash === "#permissions"`)
		b.visit("/webhooks/new")
		b.press("Add webhook")
		b.sees("Enter the address of your program.")
		b.until("the address has the focus", `document.activeElement.id === "address"`)
	}
}

// TestTypedFormSurvivesTheSession signs a person out in another tab while a form is
// being filled in; after signing in again the form is there.
func TestTypedFormSurvivesTheSession(t *testing.T) {
	t.Parallel()
	s := setup(t)
	b := s.enter(acme, session.Admin)
	b.visit("/keys/new")
	b.write("#name", "Payroll export")
	b.do(chromedp.Click(`input[value="payments:read"]`))
	s.exec(`DELETE FROM console_session`)
	b.press("Create key")
	b.sees("Your session ended. Nothing was saved.")
	b.judge("the sign-in page after a session")
	b.picture("sign-in-ended")
	b.visit(s.link(session.Link{WorkspaceID: acme, Person: "dana@northwind.example"}))
	b.press("Sign in")
	b.sees("Check what you typed")
	b.all("what was typed is there", `#name`, `(e) => e.value === "Payroll export"`)
	b.all("what was chosen is there", `input[value="payments:read"]`, `(e) => e.checked`)
	b.judge("a form after its session")
	b.picture("key-new-restored")
	b.press("Create key")
	b.sees("It is shown only once")
}

// TestZonesAndCopiesInTheBrowser looks at the zone of times, and copies an id.
func TestZonesAndCopiesInTheBrowser(t *testing.T) {
	t.Parallel()
	s := setup(t)
	well, _, _ := s.seed(acme)
	b := s.enter(acme, session.Admin)
	for _, path := range []string{"/keys", "/webhooks/" + well, "/events", "/requests", "/audit"} {
		b.visit(path)
		b.all("times have the reader's zone on hover", "time", `(e) => /E[SD]T · .* UTC$/.test(e.title) && !/UTC|E[SD]T/.test(e.textContent)`)
		b.until("the page names it once", `document.body.innerText.match(/Times are in E[SD]T\./g).length === 1`)
	}
	b.visit("/webhooks/" + well + "/missed")
	b.until("a field that takes a time names the zone", `/^Since \(E[SD]T\)$/.test(document.querySelector("label.moment span").innerText)`)
	b.visit("/webhooks/" + well)
	for _, name := range []string{"clipboard-read", "clipboard-write"} {
		b.do(call(browser.SetPermission, browser.SetPermissionParams{
			Permission: &browser.PermissionDescriptor{Name: name}, Setting: browser.PermissionSettingGranted,
		}))
	}
	button := `document.querySelector(".id .copy")`
	b.until("the button has a name", button+`.textContent === "Copy the webhook’s ID" && !`+button+`.hidden`)
	b.do(chromedp.Click(chromedp.JSPath(button)))
	b.until("it says so, and to screen readers", button+`.textContent === "Copied" && document.querySelector("#said[role=status]").textContent === "Copied"`)
	if got := script[string](b, `navigator.clipboard.readText()`); got != well {
		t.Errorf("copied %q, want %q", got, well)
	}
	b.until("the button is back", button+`.textContent === "Copy the webhook’s ID"`)
	b.visit("/nothing")
	b.sees("Not found")
	b.judge("an unknown address")
	b.press("API keys")
	b.sees("New API key")
}

// TestAuditInTheBrowser filters the audit and follows the link to the file.
func TestAuditInTheBrowser(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.seed(acme)
	s.addToAudit(dana, audit.Change{WorkspaceID: acme, Action: audit.KeyRevoke, ObjectName: "Old export"})
	b := s.enter(acme, session.Viewer)
	b.visit("/audit")
	b.sees("Signed in")
	b.write(`input[name="who"]`, "user-1")
	b.choose("what", "key.revoke")
	b.press("Filter")
	b.sees("Download what matches as CSV")
	b.all("only those that match", "tbody td.whole", `(e) => e.innerText.includes("Old export")`, "who=user-1", "what=key.revoke")
	b.judge("the audit with filters")
	b.picture("audit-filtered")
	if got := script[string](b, `fetch(document.querySelector("a[download]").href).then((r) => r.text())`); !strings.Contains(got, "Old export") || strings.Contains(got, "session.sign_in") {
		t.Errorf("the file is\n%s", got)
	}
}

// TestSettingsInTheBrowser names the people who get mail and sends them a test.
func TestSettingsInTheBrowser(t *testing.T) {
	t.Parallel()
	s := setup(t)
	b := s.enter(acme, session.Admin)
	b.press("Workspace")
	b.sees("Mail about webhooks")
	b.judge("the settings without an address")
	b.write("#name", "Acme Care")
	b.write("#email", "mara@acme.example, lee@acme.example")
	b.press("Save")
	b.sees("Saved.")
	b.sees("Acme Care")
	b.press("Send a test mail")
	b.sees("A test mail is on its way.")
	b.judge("the settings")
	b.picture("settings")
}
