package readapi_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi/route"
)

// leakTargets are paths with queries for everything: lists with filters, pairs of
// filters, and cursors of every position; single rows, hidden ones too; and requests that
// are wrong. They are sorted, each once.
func leakTargets(s *stand, everything string) []string {
	var targets []string
	for path, filters := range lists() {
		targets = append(targets, listTargets(s, path, filters, everything)...)
	}
	targets = append(targets, totalTargets()...)
	targets = append(targets, rowTargets()...)
	targets = append(targets, creditTargets(s, everything)...)
	targets = append(targets, wrongTargets()...)
	targets = append(targets, treeTargets()...)
	slices.Sort(targets)
	return slices.Compact(targets)
}

func listTargets(s *stand, path string, filters map[string][]string, key string) []string {
	since := "updated_since"
	if path == "/v1/events" {
		since = "created_since"
	}
	targets := []string{
		path, path + "?limit=2", path + "?limit=100",
		path + "?" + since + "=2026-01-01T00:00:00Z", path + "?" + since + "=2030-01-01T00:00:00Z", path + "?limit=3&" + since + "=" + domain.FormatTime(s.clock.Now()),
		path + "?limit=0", path + "?limit=1&limit=1", path + "?canary=1", path + "?cursor=x", path + "?cursor=", path + "?" + since + "=yesterday", path + "?%zz",
		path + "/", path + "?token=1", path + "?include=removed",
	}
	queries := pairs(filters, "cl_1", "co_1")
	for name, values := range filters {
		for _, v := range values {
			queries = append(queries, url.Values{name: {resolve(v, "cl_1", "co_1")}})
		}
		targets = append(targets, path+"?"+name+"=%00")
	}
	for _, q := range queries {
		targets = append(targets, path+"?"+q.Encode())
	}
	return append(targets, cursorTargets(s, path, key)...)
}

// cursorTargets continue from every position of a list, some of which are before hidden
// rows.
func cursorTargets(s *stand, path, key string) []string {
	var targets []string
	for _, query := range []string{"limit=1", "limit=3", "direction=paid_to_contractor&limit=1", "type=payout.paid&limit=1"} {
		if name, _, _ := strings.Cut(query, "="); name != "limit" && !slices.Contains(lists()[path][name], strings.TrimSuffix(query[len(name)+1:], "&limit=1")) {
			continue
		}
		for more, target := true, path+"?"+query; more; {
			p := s.page(target, key)
			more, target = *p.HasMore, path+"?"+query+"&cursor="+*p.NextCursor
			targets = append(targets, target)
		}
		targets = append(targets, path+"?limit=2&cursor="+*s.page(path+"?"+query, key).NextCursor) // not its own
	}
	return targets
}

// totalTargets are totals with every group and pair of groups and with every filter and pair of
// filters. The landing combines each of these with one of those, and full each with each.
func totalTargets() []string {
	var targets []string
	for _, r := range route.Table() {
		if r.Kind != route.Totals {
			continue
		}
		filters := lists()[strings.Replace(r.Path, "/totals", "", 1)]
		queries := append(pairs(filters, "cl_1", "co_1"), url.Values{})
		for name, values := range filters {
			for _, v := range values {
				queries = append(queries, url.Values{name: {resolve(v, "cl_1", "co_1")}})
			}
		}
		groups := []string{""}
		for _, a := range r.Resource.Total.Groups {
			groups = append(groups, a)
			for _, b := range r.Resource.Total.Groups {
				if a != b {
					groups = append(groups, a+","+b)
				}
			}
		}
		for i, q := range queries {
			for j, g := range groups {
				alone := len(q) == 0
				if g != "" {
					q.Set("group_by", g)
				}
				if alone || testkit.Full() || i%len(groups) == j {
					targets = append(targets, r.Path+"?"+q.Encode())
				}
				q.Del("group_by")
			}
		}
		targets = append(targets, r.Path+"?group_by=pay_amount", r.Path+"?group_by=client,margin_amount", r.Path+"?payout_amount=1.00")
	}
	return targets
}

// rowTargets are single rows at every path: shown and hidden ones, those of other paths
// and of another workspace, and ones that do not exist.
func rowTargets() []string {
	var targets []string
	for path, ids := range map[string][]string{
		"/v1/invoices/":     {"in_1", "in_2", "in_draft", "in_foreign_1"},
		"/v1/charges/":      {"ch_1", "ch_2", "ch_hidden_1", "ch_hidden_2", "ch_deleted", "ch_foreign_1", "ch_foreign_hidden_1"},
		"/v1/payments/":     {"pm_1", "pm_2", "pm_payout_1", "pm_payout_2", "pm_foreign_1", "pm_foreign_payout_1"},
		"/v1/time-entries/": {"te_1", "te_2", "te_deleted", "te_foreign_1"},
		"/v1/contractors/":  {"co_1", "co_2", "co_foreign_1"},
		"/v1/clients/":      {"cl_1", "cl_2", "cl_foreign_1"},
		"/v1/events/":       {"ev_1", "ev_2", "ev_payout_1", "ev_payout_2", "ev_unbilled_1", "ev_unbilled_deleted", "ev_old", "a1", "i2", "ev_unseen", "ev_foreign_1", "ev_foreign_payout_1"},
	} {
		for _, id := range append(ids, "in_1", "pm_payout_1", "nothing", "%00") {
			targets = append(targets, path+id)
		}
		targets = append(targets, path+ids[0]+"?x=1", path+ids[0]+"/", path+"%2F"+ids[0])
	}
	return targets
}

// treeTargets are tiles and bundles of trees of every size that there could be.
func treeTargets() []string {
	targets := []string{"/v1/events/checkpoint?x=1", "/v1/events/tile/0/000", "/v1/events/tile/entries/000", "/v1/events/tile/1/000.p/1", "/v1/events/tile/0/001.p/1", "/v1/events/tile/x/000"}
	for width := 1; width <= 3*leakRows+2; width++ {
		targets = append(targets, fmt.Sprintf("/v1/events/tile/0/000.p/%d", width), fmt.Sprintf("/v1/events/tile/entries/000.p/%d", width))
	}
	return targets
}

func creditTargets(s *stand, key string) []string {
	targets := []string{"/v1/clients/cl_1/credit?limit=0", "/v1/clients/cl_1/credit?x=1"}
	for _, id := range []string{"cl_1", "cl_2", "cl_foreign_1", "nothing"} {
		targets = append(targets, "/v1/clients/"+id+"/credit", "/v1/clients/"+id+"/credit?limit=2")
	}
	query := "limit=1"
	for more := true; more; {
		c := s.credit("cl_1", query, key)
		more, query = *c.HasMore, "limit=1&cursor="+c.NextCursor
		targets = append(targets, "/v1/clients/cl_1/credit?"+query, "/v1/clients/cl_2/credit?"+query)
	}
	return targets
}

func wrongTargets() []string {
	targets := []string{"/", "/v1", "/v1/nothing", "/v1/invoices/in_1/x", "/v1/me", "/v1/openapi.json"}
	for path := range endpoints() {
		targets = append(targets, path+"?x=1", path+"/", path+"?api_key=1", fmt.Sprintf("/v2%s", path))
	}
	return targets
}
