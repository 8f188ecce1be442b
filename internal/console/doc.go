// Package console is the web interface, Settings → Integrations: API keys,
// webhooks and what was delivered to them, events, the request log, and the
// audit (docs/contract/service.md, "What the service does"; docs/contract/decisions.md, "Keys" and
// "Webhooks").
//
// What it promises:
//
//   - A session sees one workspace. What belongs to another one is answered as
//     what does not exist: 404.
//   - A viewer changes nothing, and no other site can have anything changed in
//     a signed-in person's name.
//   - Secrets are shown in the one answer that made them, and are in no log.
//   - Every page works without JavaScript. What scripts and htmx add is
//     comfort: copying, times in the reader's zone, lists that renew themselves.
//   - Every change is in the audit, with who made it.
//
// Pages come from html/template; assets are embedded and nothing is loaded from
// elsewhere. What a route needs stands in its row (route.go), and the checks
// are derived from the row.
package console
