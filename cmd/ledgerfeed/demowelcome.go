package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"text/template"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/console"
)

const demoWelcome = `
Ledgerfeed is running. {{.Name}} (workspace {{.Workspace}}) has {{.Entries}} entries
over two years, and a new one every few seconds.

  key with every permission   {{.Keys.Everything.Key}}
  key without pay:read        {{.Keys.WithoutPay.Key}}

Paste into another terminal:

  # whose key is this, and what may it see?
  curl -s {{.URL}}/v1/me -H 'Authorization: Bearer {{.Keys.Everything.Key}}'

  # three invoices that were sent and are not paid, with pay and margin
  curl -s '{{.URL}}/v1/invoices?status=sent&limit=3' -H 'Authorization: Bearer {{.Keys.Everything.Key}}'

  # the same with the other key: what it may not see is not there
  curl -s '{{.URL}}/v1/invoices?status=sent&limit=3' -H 'Authorization: Bearer {{.Keys.WithoutPay.Key}}'

  # a client's credit, with its history
  curl -s '{{.URL}}/v1/clients/{{.Client}}/credit?limit=5' -H 'Authorization: Bearer {{.Keys.Everything.Key}}'

  # what happened since the start: keep next_cursor and ask again
  curl -s '{{.URL}}/v1/events?created_since={{.Since}}' -H 'Authorization: Bearer {{.Keys.Everything.Key}}'

Where to look next:

  the web interface       {{.Link}}
                          (works once, within 10 minutes; another: {{.Program}} console link --workspace {{.Workspace}})
  the API's description   {{.Console}}/api (for programs: {{.URL}}/v1/openapi.json, with a key)
  what it measures        {{.Admin}}/metrics
  progress, anomalies     {{.Program}} status
  webhooks sent           {{.Program}} webhook deliveries {{.Webhook}}
  the log itself          {{.Program}} export --workspace {{.Workspace}} --chain | tail -3
  how it is built         docs/design.md
{{with .DataDir}}
Its PostgreSQL keeps its data in {{.}}.
{{end}}
Ctrl-C stops everything; the next start goes on from here.

`

// welcome prints keys, lines to try, and where to look next.
func (m *demonstration) welcome(ctx context.Context) error {
	head, err := m.service.log.Head(ctx, demoWorkspace)
	if err != nil {
		return err
	}
	var client string
	err = m.workbench.pool.QueryRow(ctx, `
		SELECT client_id FROM credit_move WHERE workspace_id = $1
		 GROUP BY client_id ORDER BY count(*) DESC, client_id LIMIT 1`, demoWorkspace).Scan(&client)
	if err != nil {
		return fmt.Errorf("find a client with credit: %w", err)
	}
	link, _, err := m.program.consoleLink(ctx, m.workbench, m.service.url(roleConsole), console.NewLink{WorkspaceID: demoWorkspace, Person: "you"})
	if err != nil {
		return err
	}
	data := map[string]any{"Link": link, "Console": m.service.url(roleConsole),
		"Name": demoName, "Workspace": demoWorkspace, "Entries": head.Position, "Keys": m.keys, "Client": client,
		"URL": m.service.url(roleAPI), "Admin": m.service.url("admin"),
		"Since": domain.FormatTime(m.program.clock().Add(-time.Minute)), "DataDir": "", "Program": calledAs(), "Webhook": m.keys.Webhook.ID,
	}
	if local := m.service.database.local; local != nil {
		data["DataDir"] = local.DataDir()
	}
	t, err := template.New("welcome").Parse(demoWelcome)
	if err != nil {
		return fmt.Errorf("the demo's welcome: %w", err)
	}
	if err := t.Execute(m.program.out, data); err != nil {
		return fmt.Errorf("print the demo's welcome: %w", err)
	}
	return nil
}

// url is where a listener can be reached.
func (s *service) url(name string) string {
	for _, l := range s.listening {
		if l.name == name {
			return l.url
		}
	}
	return ""
}

// calledAs is how the reader can call this program again.
func calledAs() string {
	self, err := os.Executable()
	if err != nil || strings.Contains(self, "go-build") {
		return "go run ./cmd/ledgerfeed"
	}
	return os.Args[0]
}
