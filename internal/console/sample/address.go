package sample

import (
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Addresses returns the addresses of the console's pages for a person who is signed in to the
// workspace as an admin, with the searches and filters that read the most rows.
func (w *Workspace) Addresses() []string {
	key, hook := "/keys/"+w.Key, "/webhooks/"+w.Webhook
	last := func(d time.Duration) string { return w.now.Add(-d).Format("2006-01-02T15:04") }
	const week = 7 * 24 * time.Hour
	return []string{
		"/", "/?range=hour", "/?range=week", "/?range=month",
		"/keys", "/keys?range=month", "/keys/new", key, key + "?range=month", key + "/rename", key + "/rotate", key + "/revoke",
		"/webhooks", "/webhooks/new", "/webhooks/check-address?address=https://192.0.2.1/in", "/webhooks/" + w.Failing, hook, hook + "/edit", hook + "/rotate", hook + "/delete", hook + "/missed",
		hook + "?state=failed", hook + "?state=cancelled", hook + "?type=invoice.reversed", hook + "?type=credit.applied",
		hook + "?state=succeeded&from=" + url.QueryEscape(last(72*time.Hour)), hook + "?about=nothing", hook + "?about=inv_4",
		"/deliveries/" + w.Delivery,
		"/events", "/events?about=nothing", "/events?type=invoice.reversed", "/events?type=invoice.paid", "/events/" + w.Event,
		"/data", "/data/invoices", "/data/invoices?open=true", "/data/invoices?client_id=cl_1", "/data/charges", "/data/payments?direction=received_from_client", "/data/time-entries?status=sent",
		"/data/contractors", "/data/clients", "/data/credits", "/data/credit-history", "/data/invoices/inv_4", "/data/clients/cl_1", "/data/clients/cl_1/forget", "/data/contractors/co_1", "/data/charges/ch_4", "/search?q=Client", "/search?q=nobody", "/search",
		"/requests", "/requests?range=day", "/requests?range=month", "/requests?range=month&key=" + w.Key, "/requests?range=month&find=/v1/events", "/requests?key=" + w.Key, "/requests?key=" + w.Unused, "/requests?status=5", "/requests?status=204", "/requests?status=404&range=day", "/requests?status=404&key=" + w.Key,
		"/requests?find=req-" + strconv.Itoa(w.Requests/2), "/requests?find=req-none", "/requests?find=/v1/invoices/none", "/requests?find=/v1/events",
		"/requests?from=" + last(week), "/requests?to=" + last(week) + "&status=500", "/requests/" + w.Record,
		"/anomalies", "/anomalies?all=1", "/anomalies/unknown_object/invoice.reversed", "/anomalies/at/1",
		"/audit", "/audit?who=nobody", "/settings", "/workspaces", "/sign-in", "/sign-in/none", "/api", "/api/invoices",
	}
}

// Brief returns an address with words in place of the workspace's ids.
func (w *Workspace) Brief(address string) string {
	return strings.NewReplacer(
		w.Delivery, "{delivery}", w.Event, "{event}", w.Record, "{request}", w.Key, "{key}", w.Unused, "{unused}", w.Webhook, "{webhook}", w.Failing, "{failing}",
	).Replace(address)
}
