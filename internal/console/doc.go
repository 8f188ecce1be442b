// Package console is the web interface, Settings → Integrations: API keys,
// webhooks and their deliveries, events, the data, the request log, anomalies, and the
// audit trail (docs/contract/service.md, "What the service does";
// docs/contract/decisions.md, "Keys" and "Webhooks").
//
// What it promises:
//
//   - A session sees one workspace. Everything in another workspace answers 404,
//     as if it did not exist.
//   - A viewer changes nothing, and no other site can change anything in
//     a signed-in person's name.
//   - Only the response that creates a secret shows it, and no log has it.
//   - Every page works without JavaScript. Scripts and htmx only add comfort:
//     copying, times in the reader's zone, lists that refresh themselves.
//   - The audit trail records every change, with the person who made it.
//
// Package pages has the pages, except for the audit trail and the API reference, which are here.
// Package web has what pages share, and package session knows who is signed in. This package puts
// the routes on a mux with the checks they pass (console.go, middleware.go).
package console
