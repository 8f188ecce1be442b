package demo

import (
	"context"
	"fmt"
	"text/template"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/service"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/readapi/access/consolelink"
)

const welcomeText = `
Ledgerfeed is running. {{.Name}} (workspace {{.Workspace}}) has {{.Entries}} entries
over two years, and gets a new one every few seconds.

  key with every permission   {{.Saved.Everything.Key}}
  key without pay:read        {{.Saved.WithoutPay.Key}}

Paste into another terminal:

  # whose key is this, and what may it see?
  curl -s {{.URL}}/v1/me -H 'Authorization: Bearer {{.Saved.Everything.Key}}'

  # three open invoices, with pay and margin
  curl -s '{{.URL}}/v1/invoices?open=true&limit=3' -H 'Authorization: Bearer {{.Saved.Everything.Key}}'

  # the same with the other key: what it may not see is left out
  curl -s '{{.URL}}/v1/invoices?open=true&limit=3' -H 'Authorization: Bearer {{.Saved.WithoutPay.Key}}'

  # what each client still owes
  curl -s '{{.URL}}/v1/totals/invoices?open=true&group_by=client' -H 'Authorization: Bearer {{.Saved.Everything.Key}}'

  # a client's credit, with its history
  curl -s '{{.URL}}/v1/clients/{{.Client}}/credit?limit=5' -H 'Authorization: Bearer {{.Saved.Everything.Key}}'

  # what happened since the start: keep next_cursor for the next request
  curl -s '{{.URL}}/v1/events?created_since={{.Since}}' -H 'Authorization: Bearer {{.Saved.Everything.Key}}'

Where to look next:

  the web interface       {{.Link}}
                          (works once, within 10 minutes; another: {{.Program}} console link --workspace {{.Workspace}})
  the API's description   {{.URL}}/docs (for programs: {{.URL}}/docs/openapi.json)
  metrics                 {{.Admin}}/metrics
  progress, anomalies     {{.Program}} status
  webhooks sent           {{.Program}} webhook deliveries {{.Webhook}}
  an event of any type    {{.Program}} trigger invoice.paid
  webhooks, to your code  {{.Program}} webhook listen --workspace {{.Workspace}} --forward-to http://localhost:3000/hook
  the log itself          {{.Program}} export --workspace {{.Workspace}} --chain | tail -3
  how it is built         docs/design.md
{{with .DataDir}}
Its PostgreSQL keeps its data in {{.}}.
{{else}}
Commands in another terminal need the same DATABASE_URL.
{{end}}
Ctrl-C stops everything; the next start continues from here.

`

// welcome prints keys, lines to try, and where to look next.
func welcome(ctx context.Context, env *cli.Env, deps *cli.Deps, s *service.Service, saved *saved) error {
	head, err := s.Log.Head(ctx, workspaceID)
	if err != nil {
		return err
	}
	var client string
	err = deps.Pool.QueryRow(ctx, `
		SELECT client_id FROM credit_move WHERE workspace_id = $1
		 GROUP BY client_id ORDER BY count(*) DESC, client_id LIMIT 1`, workspaceID).Scan(&client)
	if err != nil {
		return fmt.Errorf("cannot find a client with credit: %w", err)
	}
	consoleURL := s.URL(service.RoleConsole)
	links, err := deps.ConsoleLinks(consoleURL)
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
		"Name": workspaceName, "Workspace": workspaceID, "Entries": head.Position, "Saved": saved, "Client": client,
		"Since":   domain.FormatTime(env.Clock().Add(-time.Minute)),
		"URL":     s.URL(service.RoleAPI),
		"Console": consoleURL, "Link": link.URL,
		"Admin":   s.URL(service.AdminListener),
		"Program": env.Again(deps.DataDir(env.Settings.DataDir)), "Webhook": saved.Webhook.ID,
		"DataDir": deps.DataDir(""),
	})
	if err != nil {
		return fmt.Errorf("cannot print the demo's welcome: %w", err)
	}
	return nil
}
