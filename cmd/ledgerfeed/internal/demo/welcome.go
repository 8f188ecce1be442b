package demo

import (
	"context"
	"fmt"
	"text/template"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/operate"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/service"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/readapi/access/consolelink"
)

const welcomeText = `
Ledgerfeed is running. {{.Name}} (workspace {{.Workspace}}) has {{.Entries}} entries over
two years, and gets a new one every few seconds. In another terminal, begin with:

  KEY={{.Saved.Everything.Key}}
  lf() { {{.Program}} "$@"; }

1. Read what is open, the open amounts by client, and the same without what contractors are paid:

  curl -s '{{.URL}}/v1/invoices?open=true&limit=3' -H "Authorization: Bearer $KEY"
  curl -s '{{.URL}}/v1/totals/invoices?open=true&group_by=client' -H "Authorization: Bearer $KEY"
  curl -s '{{.URL}}/v1/invoices?open=true&limit=3' -H 'Authorization: Bearer {{.Saved.WithoutPay.Key}}'

2. Change something. Follow the events, or have each sent to your program as a signed webhook:

  lf trigger invoice.paid
  curl -s '{{.URL}}/v1/events?created_since={{.Since}}' -H "Authorization: Bearer $KEY"
  lf webhook listen --workspace {{.Workspace}} --forward-to http://localhost:3000/hook

3. Look around: the console (the link works once, within 10 minutes; lf console link --workspace
   {{.Workspace}} makes another), the API's documentation, and what an operator sees:

  {{.Link}}
  {{.URL}}/docs
  lf status
{{with .DataDir}}
Its PostgreSQL keeps its data in {{.}}.
{{else}}
Commands in another terminal need the same DATABASE_URL.
{{end}}
Ctrl-C stops everything; the next start continues from here.

`

// welcome prints three steps to try. Settings are in the first lines alone, so that the others stay short.
func welcome(ctx context.Context, env *operate.Env, deps *operate.Deps, s *service.Service, saved *saved) error {
	head, err := s.Log.Head(ctx, workspaceID)
	if err != nil {
		return err
	}
	links, err := deps.ConsoleLinks(s.URL(service.RoleConsole))
	if err != nil {
		return err
	}
	link, err := links.SignIn(ctx, consolelink.Person{WorkspaceID: workspaceID, Name: "you", Role: consolelink.Admin})
	if err != nil {
		return err
	}
	t, err := template.New("welcome").Parse(welcomeText)
	if err != nil {
		return fmt.Errorf("the demo's welcome: %w", err)
	}
	err = t.Execute(env.Out, map[string]any{
		"Name": workspaceName, "Workspace": workspaceID, "Entries": head.Position, "Saved": saved,
		"Since":   domain.FormatTime(env.Clock().Add(-time.Minute)),
		"URL":     s.URL(service.RoleAPI),
		"Link":    link.URL,
		"Program": env.Again(deps.DataDir(env.Settings.DataDir)),
		"DataDir": deps.DataDir(""),
	})
	if err != nil {
		return fmt.Errorf("cannot print the demo's welcome: %w", err)
	}
	return nil
}
