// Package console is the web interface, Settings → Integrations: API keys,
// webhooks and what was delivered to them, events, the request log, anomalies, and the
// audit trail (docs/contract/service.md, "What the service does";
// docs/contract/decisions.md, "Keys" and "Webhooks").
//
// What it promises:
//
//   - A session sees one workspace. What belongs to another one is answered as
//     what does not exist: 404.
//   - A viewer changes nothing, and no other site can have anything changed in
//     a signed-in person's name.
//   - Secrets are shown in the one response that made them, and are in no log.
//   - Every page works without JavaScript. Scripts and htmx only add comfort:
//     copying, times in the reader's zone, lists that renew themselves.
//   - Every change is in the audit trail, with the person who made it.
//
// Each subject is a package with its pages: overview, keys, webhooks, events, requests,
// anomalies and signin. What they share is in web, label and chart; session and identity know
// who is signed in. Here are the routes on their mux and the checks that they
// pass (console.go, middleware.go).
package console
