package archtest

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
)

// arrows says which packages of this module each package may import ("Packages"
// in docs/design.md). A package that is not listed may not exist; other
// modules may be imported by every package but those of pure.
var arrows = map[string][]string{
	"domain":          {"domain/jsonform"},
	"domain/jsonform": {},
	"migrations":      {"internal/pg", "internal/flow", "migrations/distribute"},

	"migrations/distribute": {},

	"eventlog": {
		"domain", "domain/jsonform", "internal/batch", "internal/flow", "internal/pg", "internal/seededbug", "internal/audit", "internal/tracing",
		"internal/entrance", "internal/periodic",
	},
	"eventlog/eventtree":    {"domain", "eventlog", "internal/entrance", "internal/flow", "internal/pg", "internal/tlogcheckpoint"},
	"eventlog/watermillsql": {"domain", "eventlog"},
	"eventlog/natsnotify":   {"eventlog", "internal/bus", "internal/bus/jetstream"},

	"projections/anomaly": {"domain", "internal/audit", "internal/pg"},
	"projections":         {"domain", "eventlog", "projections/table", "internal/entrance", "internal/flow", "internal/pg", "internal/seededbug", "internal/tracing"},
	"projections/table":   {"domain"},
	"projections/replay":  {"domain", "eventlog", "eventlog/eventtree", "projections", "projections/table", "internal/pg", "internal/audit", "domain/jsonform"},
	"projections/projectionstest": {
		"domain", "eventlog", "projections", "internal/pg", "internal/rowcheck", "internal/scenario", "internal/testkit",
	},

	"readapi/access/consolelink": {"internal/console/origin", "internal/console/session"},
	"readapi/access":             {"domain", "eventlog", "internal/batch", "internal/brand", "internal/periodic", "internal/audit"},
	"readapi/access/limit":       {"readapi/access", "internal/periodic"},
	"readapi/requestlog":         {"internal/periodic", "internal/pg", "internal/rollup"},
	"readapi/route":              {"domain", "domain/jsonform", "readapi/access"},
	"readapi/answer":             {"readapi/access", "readapi/access/limit"},
	"readapi/wholelist":          {"domain", "domain/jsonform", "readapi/answer"},
	"readapi/openapi":            {"domain", "domain/jsonform", "readapi/access", "readapi/access/limit", "readapi/answer", "readapi/route", "readapi/wholelist", "internal/brand"},
	"readapi/reference": {
		"domain", "domain/jsonform", "readapi/access", "readapi/answer", "readapi/openapi", "readapi/route", "internal/signaturecheck",
		"internal/signingkey",
	},
	"internal/signaturecheck": {},
	"readapi/waiting":         {"eventlog", "internal/periodic"},
	"readapi": {
		"domain", "domain/jsonform", "eventlog", "internal/batch", "internal/brand", "internal/pg", "readapi/access", "readapi/access/limit", "readapi/answer",
		"readapi/wholelist", "readapi/reference", "readapi/openapi", "readapi/requestlog", "readapi/route", "readapi/waiting", "internal/seededbug", "internal/tracing",
		"internal/signingkey", "internal/replica", "eventlog/eventtree", "internal/entrance",
	},

	"delivery/attempt":            {"delivery/policy", "domain", "internal/tracing"},
	"delivery/dispatch/scheduler": {"delivery/attempt", "delivery/policy"},
	"delivery/dispatch": {
		"delivery/attempt", "delivery/dispatch/scheduler", "delivery/keyring", "delivery/mail", "delivery/policy", "eventlog",
		"internal/flow", "internal/pg", "internal/audit", "delivery/secretkey", "internal/seededbug", "internal/tracing",
		"internal/periodic", "internal/rollup",
	},
	"delivery/keyring":   {},
	"delivery/secretkey": {"delivery/keyring", "internal/audit", "internal/flow", "internal/pg"},
	"delivery/mail":      {"internal/audit", "internal/periodic", "internal/pg"},
	"delivery/policy":    {"internal/brand", "internal/seededbug", "internal/timespan"},
	"delivery/receiver":  {"delivery", "delivery/attempt", "internal/brand"},
	"delivery": {
		"domain", "eventlog", "internal/pg", "delivery/attempt", "delivery/dispatch", "delivery/keyring", "delivery/policy",
		"internal/audit", "delivery/secretkey", "internal/similar",
	},

	"delivery/statement": {"delivery", "delivery/policy", "domain", "internal/audit", "internal/signingkey"},

	"internal/audit":             {},
	"internal/console/anomalies": {"domain", "internal/console/label", "internal/console/session", "internal/console/web", "projections/anomaly"},
	"internal/console/overview": {
		"delivery", "delivery/attempt", "eventlog", "internal/console/chart", "internal/console/label",
		"internal/console/session", "internal/console/web", "internal/rollup", "readapi/access",
	},
	"internal/console/theme": {},
	"internal/console/settings": {
		"delivery/mail", "eventlog", "internal/console/label", "internal/console/web", "internal/pg", "readapi/access",
		"eventlog/eventtree", "internal/signingkey",
	},
	"internal/console/sample": {
		"delivery", "domain", "eventlog", "internal/audit", "internal/console/web", "internal/pg", "internal/rollup",
		"readapi/access",
	},
	"internal/console": {
		"eventlog", "readapi/access", "delivery", "internal/audit", "internal/console/events", "internal/console/identity",
		"internal/console/keys", "internal/console/origin", "internal/console/requests", "internal/console/session",
		"internal/console/signin", "internal/console/web", "internal/console/webhooks", "delivery/policy", "internal/pg",
		"internal/console/anomalies", "projections/anomaly", "internal/console/overview", "internal/rollup",
		"internal/console/theme", "delivery/mail", "internal/console/settings", "projections/replay", "readapi",
		"internal/console/data",
		"delivery/statement", "readapi/reference", "internal/signingkey",
	},
	"internal/console/data":     {"internal/console/label", "internal/console/web", "readapi", "readapi/route"},
	"internal/console/origin":   {},
	"internal/console/session":  {"domain", "internal/audit"},
	"internal/console/identity": {"internal/console/session", "internal/flow", "internal/periodic"},
	"internal/console/label":    {"domain", "readapi/access", "delivery/attempt", "delivery/policy", "domain/jsonform"},
	"internal/console/chart":    {"internal/console/label", "internal/rollup"},
	"internal/console/web": {
		"domain", "readapi/access", "delivery", "eventlog", "internal/console/label", "internal/console/session", "internal/pg",
		"internal/tracing", "internal/console/origin", "internal/console/theme",
	},
	"internal/console/signin": {"domain", "internal/console/identity", "internal/console/session", "internal/console/web"},
	"internal/console/keys": {
		"readapi/access", "internal/console/label", "internal/console/web", "internal/console/chart", "internal/rollup",
	},
	"internal/console/webhooks": {"domain", "delivery", "internal/console/chart", "internal/console/label", "internal/console/web", "delivery/attempt", "delivery/policy", "delivery/statement", "internal/signaturecheck"},
	"internal/console/events": {
		"domain", "eventlog", "delivery", "internal/console/label", "internal/console/web",
		"projections/anomaly", "projections/replay", "readapi", "readapi/route",
	},
	"internal/console/requests": {
		"readapi/access", "readapi/requestlog", "readapi/route", "internal/console/chart", "internal/console/web",
		"internal/rollup",
	},

	"internal/archtest": {},
	"internal/moving": {
		"delivery/dispatch", "delivery/keyring", "delivery/secretkey", "domain", "eventlog", "internal/audit", "internal/flow", "internal/pg",
		"migrations", "readapi", "readapi/access",
	},
	"internal/signingkey":          {},
	"internal/batch":               {},
	"internal/brand":               {},
	"internal/connlimit":           {},
	"internal/flow":                {},
	"internal/heap":                {},
	"internal/datadir":             {},
	"internal/localpg":             {"internal/datadir", "internal/localpg/programs", "internal/pg"},
	"internal/localpg/programs":    {"internal/datadir", "internal/pg"},
	"internal/periodic":            {},
	"internal/pg":                  {},
	"internal/scenario":            {},
	"internal/seededbug":           {},
	"internal/bus":                 {},
	"internal/bus/jetstream":       {"internal/bus"},
	"internal/relay":               {"domain", "eventlog", "internal/bus", "internal/flow", "internal/seededbug"},
	"internal/ingest":              {"domain", "eventlog", "internal/bus", "internal/flow", "internal/seededbug"},
	"internal/ingest/outbox":       {"internal/flow", "internal/ingest", "internal/pg"},
	"internal/ingest/stream":       {"internal/bus", "internal/bus/jetstream", "internal/flow", "internal/ingest"},
	"internal/testkit/natscluster": {"internal/testkit"},
	"internal/settings": {
		"eventlog/natsnotify",
		"internal/bus/jetstream", "internal/relay", "internal/ingest/outbox",
		"delivery/keyring", "delivery/mail", "delivery/policy", "internal/brand", "internal/console/identity",
		"internal/console/origin", "internal/similar", "internal/timespan", "domain", "internal/console/theme",
		"internal/signingkey", "internal/pg", "internal/replica", "internal/witness",
	},
	"internal/testkit/frontproxy":  {"internal/testkit"},
	"internal/testkit/pooler":      {"internal/pg", "internal/testkit", "internal/testkit/pgbouncer"},
	"internal/testkit/pgserver":    {"internal/localpg/programs", "internal/testkit"},
	"internal/testkit/replication": {"internal/testkit", "internal/testkit/pgserver"},
	"internal/testkit/twonodes":    {"internal/entrance", "internal/pg", "internal/testkit", "internal/testkit/pgserver", "migrations"},
	"internal/replica":             {"internal/flow", "internal/pg"},
	"internal/entrance":            {"internal/flow", "internal/pg"},
	"internal/testkit":             {"internal/entrance", "internal/localpg", "internal/pg", "internal/testkit/pgbouncer"},
	"internal/testkit/pgbouncer":   {},
	"internal/rowcheck":            {"domain"},

	"cmd/ledgerfeed": {
		"domain", "eventlog", "readapi/access", "readapi/reference", "readapi/openapi", "delivery", "internal/console/session",
		"internal/pg", "cmd/ledgerfeed/internal/cli", "cmd/ledgerfeed/internal/demo", "cmd/ledgerfeed/internal/listen",
		"cmd/ledgerfeed/internal/repair", "cmd/ledgerfeed/internal/service", "cmd/ledgerfeed/internal/status",
		"cmd/ledgerfeed/internal/signing", "cmd/ledgerfeed/internal/following", "cmd/ledgerfeed/internal/witnessing",
		"cmd/ledgerfeed/internal/trigger", "cmd/ledgerfeed/internal/transfer", "delivery/attempt", "delivery/keyring",
		"delivery/secretkey", "internal/buildinfo", "internal/settings", "internal/timespan", "cmd/ledgerfeed/internal/doctor",
		"cmd/ledgerfeed/internal/anomaly", "migrations", "migrations/distribute", "cmd/ledgerfeed/internal/supportbundle", "internal/similar",
		"internal/sizing", "cmd/ledgerfeed/internal/manual", "internal/moving", "internal/sibling", "readapi/access/consolelink",
	},
	"cmd/ledgerfeed/internal/cli": {
		"eventlog/natsnotify", "internal/bus",
		"eventlog", "projections", "readapi/access", "delivery", "migrations", "internal/datadir", "internal/localpg",
		"internal/pg", "internal/settings", "delivery/keyring", "delivery/secretkey", "internal/similar", "internal/buildinfo",
		"internal/tracing", "readapi/access/consolelink", "internal/entrance",
	},
	"cmd/ledgerfeed/internal/service": {
		"internal/entrance",
		"cmd/ledgerfeed/internal/cli", "eventlog", "eventlog/eventtree", "projections", "projections/replay", "delivery", "readapi",
		"readapi/access", "readapi/access/limit", "readapi/reference", "readapi/openapi", "readapi/requestlog",
		"internal/audit", "internal/console", "internal/console/session", "internal/flow", "internal/heap", "internal/pg",
		"delivery/dispatch", "internal/buildinfo", "internal/connlimit", "delivery/keyring", "delivery/secretkey",
		"internal/tlslisten", "internal/similar", "cmd/ledgerfeed/internal/gauges", "migrations", "internal/rollup",
		"delivery/mail", "internal/console/events", "cmd/ledgerfeed/internal/signing",
		"delivery/mail", "internal/console/events", "internal/bus", "internal/bus/jetstream", "internal/relay", "internal/settings",
		"internal/ingest", "internal/ingest/outbox", "internal/ingest/stream", "internal/replica", "internal/cosigning", "internal/signingkey",
	},
	"cmd/ledgerfeed/internal/demo/lastday": {
		"delivery/attempt", "delivery/policy", "internal/pg", "internal/rollup", "readapi/requestlog", "readapi/answer",
	},
	"cmd/ledgerfeed/internal/demo": {
		"cmd/ledgerfeed/internal/cli", "cmd/ledgerfeed/internal/trigger", "cmd/ledgerfeed/internal/listen",
		"cmd/ledgerfeed/internal/service", "domain", "eventlog", "readapi/access", "delivery", "internal/datadir",
		"internal/pg", "internal/scenario", "delivery/receiver", "readapi/access/consolelink",
		"cmd/ledgerfeed/internal/demo/lastday", "internal/settings",
	},
	"cmd/ledgerfeed/internal/trigger": {"cmd/ledgerfeed/internal/cli", "domain", "internal/similar"},
	"cmd/ledgerfeed/internal/signing": {"cmd/ledgerfeed/internal/cli", "delivery/statement", "internal/datadir", "internal/localpg", "internal/signingkey"},
	"cmd/ledgerfeed/internal/listen":  {"cmd/ledgerfeed/internal/cli", "delivery", "delivery/receiver", "domain", "internal/datadir"},
	"cmd/ledgerfeed/internal/repair": {
		"cmd/ledgerfeed/internal/cli", "domain", "eventlog", "projections/replay", "internal/pg", "projections/anomaly",
		"cmd/ledgerfeed/internal/signing", "eventlog/eventtree", "internal/follower", "internal/signingkey",
	},
	"cmd/ledgerfeed/internal/status": {
		"cmd/ledgerfeed/internal/cli", "projections", "delivery/dispatch", "internal/timespan", "projections/anomaly",
		"internal/pg", "internal/relay", "internal/replica", "cmd/ledgerfeed/internal/service",
	},
	"cmd/ledgerfeed/internal/transfer": {
		"cmd/ledgerfeed/internal/cli", "domain", "eventlog", "internal/pg", "internal/timespan", "projections/anomaly",
		"internal/tracing",
	},

	"cmd/ledgerfeed-bench": {
		"cmd/ledgerfeed-bench/internal/deliverbench", "cmd/ledgerfeed-bench/internal/logbench",
		"cmd/ledgerfeed-bench/internal/measure", "cmd/ledgerfeed-bench/internal/readbench",
		"cmd/ledgerfeed-bench/internal/replaybench", "internal/localpg", "cmd/ledgerfeed-bench/internal/sizebench",
		"cmd/ledgerfeed-bench/internal/consolebench", "cmd/ledgerfeed-bench/internal/relaybench",
	},
	"cmd/ledgerfeed-bench/internal/relaybench": {
		"cmd/ledgerfeed-bench/internal/measure", "cmd/ledgerfeed-bench/internal/workload", "domain", "internal/bus",
		"internal/bus/jetstream", "internal/flow", "internal/ingest", "internal/ingest/outbox", "internal/pg", "internal/relay",
		"eventlog", "eventlog/natsnotify", "internal/ingest/stream",
	},
	"cmd/ledgerfeed-bench/internal/measure": {"eventlog", "migrations", "internal/heap", "internal/pg", "internal/tracing"},
	"cmd/ledgerfeed-bench/internal/workload": {
		"cmd/ledgerfeed-bench/internal/measure", "domain", "eventlog", "projections", "internal/pg", "internal/scenario",
		"eventlog/eventtree",
	},
	"cmd/ledgerfeed-bench/internal/api": {
		"cmd/ledgerfeed-bench/internal/measure", "eventlog", "readapi", "readapi/access", "readapi/access/limit",
		"readapi/requestlog", "internal/brand", "internal/pg", "internal/replica", "internal/signingkey", "internal/tracing",
	},
	"cmd/ledgerfeed-bench/internal/logbench": {
		"cmd/ledgerfeed-bench/internal/api", "cmd/ledgerfeed-bench/internal/measure", "cmd/ledgerfeed-bench/internal/workload", "domain", "eventlog",
		"internal/pg", "internal/tracing",
	},
	"cmd/ledgerfeed-bench/internal/readbench": {
		"cmd/ledgerfeed-bench/internal/api", "cmd/ledgerfeed-bench/internal/measure", "cmd/ledgerfeed-bench/internal/workload",
		"domain", "readapi", "internal/pg", "internal/replica", "internal/tracing",
	},
	"cmd/ledgerfeed-bench/internal/deliverbench": {
		"cmd/ledgerfeed-bench/internal/measure", "cmd/ledgerfeed-bench/internal/workload", "domain", "delivery",
		"delivery/attempt", "delivery/dispatch", "delivery/keyring", "delivery/policy", "internal/pg", "internal/tracing",
	},
	"cmd/ledgerfeed-bench/internal/replaybench": {
		"cmd/ledgerfeed-bench/internal/api", "cmd/ledgerfeed-bench/internal/measure", "cmd/ledgerfeed-bench/internal/workload",
		"projections/replay", "internal/pg",
	},

	"cmd/ledgerfeed-chaos": {
		"cmd/ledgerfeed-chaos/internal/check", "cmd/ledgerfeed-chaos/internal/cluster", "cmd/ledgerfeed-chaos/internal/fault",
		"cmd/ledgerfeed-chaos/internal/report", "cmd/ledgerfeed-chaos/internal/workload", "internal/flow",
		"cmd/ledgerfeed-chaos/internal/region",
	},
	"cmd/ledgerfeed-chaos/internal/region":  {"cmd/ledgerfeed-chaos/internal/check", "cmd/ledgerfeed-chaos/internal/cluster", "internal/flow"},
	"internal/badnetwork":                   {},
	"cmd/ledgerfeed-chaos/internal/cluster": {"internal/badnetwork", "internal/flow", "internal/localpg/programs"},
	"cmd/ledgerfeed-chaos/internal/check":   {"domain", "internal/rowcheck"},
	"cmd/ledgerfeed-chaos/internal/workload": {
		"cmd/ledgerfeed-chaos/internal/check", "cmd/ledgerfeed-chaos/internal/cluster", "internal/badnetwork",
		"domain", "eventlog", "eventlog/watermillsql", "internal/entrance", "internal/flow", "internal/pg", "internal/scenario",
	},
	"cmd/ledgerfeed-chaos/internal/fault": {
		"cmd/ledgerfeed-chaos/internal/check", "cmd/ledgerfeed-chaos/internal/cluster", "internal/badnetwork",
		"cmd/ledgerfeed-chaos/internal/region", "cmd/ledgerfeed-chaos/internal/workload", "internal/flow",
	},
	"cmd/ledgerfeed-chaos/internal/report": {"cmd/ledgerfeed-chaos/internal/check"},

	"internal/tlogcheckpoint":           {},
	"internal/follower":                 {"internal/signingkey", "internal/tlogcheckpoint"},
	"internal/follower/followertest":    {"internal/signingkey"},
	"cmd/ledgerfeed/internal/following": {"cmd/ledgerfeed/internal/cli", "internal/flow", "internal/follower", "internal/signingkey", "internal/witness"},
	"internal/witness":                  {"internal/datadir", "internal/signingkey", "internal/tlogcheckpoint"},
	"internal/cosigning":                {"eventlog/eventtree", "internal/flow", "internal/periodic", "internal/signingkey", "internal/witness"},
	"cmd/ledgerfeed/internal/witnessing": {
		"cmd/ledgerfeed/internal/cli", "internal/datadir", "internal/flow", "internal/follower", "internal/signingkey", "internal/witness",
	},

	"internal/buildinfo": {},
	"internal/tlslisten": {},
	"internal/similar":   {},
	"internal/timespan":  {},
	"cmd/ledgerfeed/internal/doctor": {
		"eventlog/natsnotify", "internal/bus", "internal/entrance",
		"cmd/ledgerfeed/internal/cli", "cmd/ledgerfeed/internal/service", "delivery/dispatch", "delivery/secretkey",
		"eventlog", "internal/pg", "internal/settings", "migrations", "projections", "projections/anomaly", "domain",
		"internal/sizing", "internal/relay", "cmd/ledgerfeed/internal/signing", "internal/signingkey", "readapi/reference",
		"internal/replica",
	},
	"cmd/ledgerfeed/internal/anomaly": {"cmd/ledgerfeed/internal/cli", "domain", "projections/anomaly"},
	"cmd/ledgerfeed/internal/gauges":  {"eventlog", "eventlog/eventtree", "internal/flow", "internal/periodic", "internal/pg", "internal/relay", "projections/anomaly"},
	"cmd/ledgerfeed-image":            {},
	"internal/tracing":                {"internal/periodic"},
	"cmd/ledgerfeed/internal/supportbundle": {
		"cmd/ledgerfeed/internal/cli", "cmd/ledgerfeed/internal/doctor", "internal/buildinfo", "internal/pg",
		"internal/settings", "cmd/ledgerfeed/internal/service",
	},
	"cmd/ledgerfeed-bench/internal/sizebench": {
		"cmd/ledgerfeed-bench/internal/api", "cmd/ledgerfeed-bench/internal/deliverbench",
		"cmd/ledgerfeed-bench/internal/measure", "cmd/ledgerfeed-bench/internal/workload", "internal/pg", "internal/sizing",
		"internal/sibling", "domain",
	},
	"internal/sizing":                {},
	"cmd/ledgerfeed/internal/manual": {"internal/buildinfo"},
	"internal/sibling":               {},
	"internal/rollup":                {"internal/periodic", "internal/pg"},
	"cmd/ledgerfeed-bench/internal/consolebench": {
		"cmd/ledgerfeed-bench/internal/measure", "delivery", "delivery/keyring", "delivery/mail", "eventlog", "internal/audit",
		"internal/brand", "internal/console", "internal/console/sample", "internal/console/session", "internal/rollup",
		"readapi/access", "readapi",
	},
	"docs/receivers/go": {}, // an example for others, who do not have our packages
}

// pure are the packages that may import the standard library and each other
// only.
var pure = []string{"domain", "domain/jsonform", "docs/receivers/go"}

// homes says which packages may import another module's packages, tests included;
// the longest matching path counts. Modules that are not listed may be imported
// everywhere.
var homes = map[string][]string{
	"github.com/ThreeDotsLabs/watermill":      {"eventlog", "eventlog/eventtree", "eventlog/watermillsql", "projections", "delivery/dispatch", "internal/flow", "internal/bus", "internal/bus/jetstream", "internal/relay", "internal/ingest", "internal/ingest/outbox", "internal/ingest/stream", "cmd/ledgerfeed-chaos/internal/workload", "cmd/ledgerfeed-bench/internal/relaybench"},
	"github.com/ThreeDotsLabs/watermill-nats": {"internal/bus/jetstream", "internal/ingest/stream"},
	"github.com/nats-io/nats-server":          {"internal/testkit/natscluster", "cmd/ledgerfeed-bench/internal/relaybench", "cmd/ledgerfeed-chaos/internal/region", "eventlog/natsnotify"},
	"github.com/ThreeDotsLabs/watermill-sql":  {"eventlog/watermillsql", "internal/ingest", "internal/ingest/outbox", "cmd/ledgerfeed-chaos/internal/workload"},
}

// homesOf returns the listed module that an imported package is of, and its homes.
func homesOf(imported string) (name string, of []string, listed bool) {
	for name = imported; name != "."; name = path.Dir(name) {
		if of, listed = homes[name]; listed {
			return name, of, true
		}
	}
	return "", nil, false
}

// inTests is what the tests of every package may import as well.
var inTests = []string{"migrations", "internal/brand", "internal/testkit", "internal/testkit/frontproxy", "internal/testkit/pooler", "internal/testkit/pgserver", "internal/testkit/replication", "internal/testkit/twonodes", "internal/testkit/natscluster", "internal/scenario", "internal/rowcheck", "internal/pg", "internal/localpg", "internal/rollup", "projections/projectionstest"}

// inTestsOf is what the tests of single packages may import besides that.
var inTestsOf = map[string][]string{
	// They run a second version of the program, with other rules, and servers that are restored from backups.
	"cmd/ledgerfeed":          {"projections", "projections/replay", "internal/localpg/programs", "internal/signingkey", "internal/badnetwork"},
	"internal/console":        {"delivery/attempt", "domain", "projections", "internal/console/label", "internal/console/sample", "delivery/dispatch", "delivery/keyring", "readapi/openapi", "readapi/requestlog"},
	"delivery":                {"delivery/mail", "delivery/receiver"},
	"eventlog":                {"eventlog/natsnotify", "internal/bus"},
	"internal/relay":          {"internal/bus/jetstream"},
	"internal/ingest":         {"internal/bus/jetstream", "internal/ingest/outbox", "internal/ingest/stream", "internal/relay", "projections", "projections/replay"},
	"internal/signaturecheck": {"delivery/attempt"},
	"delivery/statement":      {"delivery/keyring", "eventlog"},
	"internal/archtest":       {"migrations/distribute"}, // which tables Citus has where
	"internal/cosigning":      {"domain", "eventlog", "internal/datadir"},
	"readapi":                 {"internal/connlimit"}, // what HTTP/2 leaves of its bounds

	"internal/follower":                 {"internal/follower/followertest"},
	"cmd/ledgerfeed/internal/following": {"internal/follower/followertest"},
	"internal/witness":                  {"internal/follower/followertest"},
	// They submit what was followed.
	"cmd/ledgerfeed/internal/witnessing": {"internal/follower/followertest", "cmd/ledgerfeed/internal/following"},

	"readapi/access/consolelink":           {"domain"},
	"cmd/ledgerfeed/internal/demo/lastday": {"delivery", "delivery/keyring", "domain", "eventlog"},
}

// importFault says what is wrong with a file of package from importing a
// package, if anything is. Both are folders below the module's root, but an
// imported package of another module has its whole path.
func importFault(from string, test bool, imported string) string {
	allowed, known := arrows[from]
	if !known {
		return fmt.Sprintf("package %s is not in the table of packages and their imports", from)
	}
	to, ours := strings.CutPrefix(imported, module)
	switch {
	case !ours:
		external := strings.Contains(strings.Split(imported, "/")[0], ".")
		if external && !test && slices.Contains(pure, from) {
			return from + " may import only the standard library, not " + imported
		}
		if name, of, listed := homesOf(imported); listed && !slices.Contains(of, from) {
			return fmt.Sprintf("%s may not import %s; packages that may: %s", from, name, list(of))
		}
		return ""
	case to == from, slices.Contains(allowed, to), test && (slices.Contains(inTests, to) || slices.Contains(inTestsOf[from], to)):
		return ""
	case test:
		return fmt.Sprintf("tests of %s may not import %s; they may import %s", from, to, list(append(slices.Clone(allowed), inTests...)))
	}
	return fmt.Sprintf("%s may not import %s; it may import %s", from, to, list(allowed))
}

func list(names []string) string {
	if len(names) == 0 {
		return "no other package of this module"
	}
	names = slices.Clone(names)
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}

func TestPackagesImportOnlyWhatTheyMay(t *testing.T) {
	t.Parallel()
	for _, file := range tree(t) {
		for _, imported := range file.imports {
			if fault := importFault(file.folder(), file.test(), imported); fault != "" {
				t.Errorf("%s: %s", file.path, fault)
			}
		}
	}
}

// TestTableOfImportsIsTrue fails for packages and arrows that nobody uses.
func TestTableOfImportsIsTrue(t *testing.T) {
	t.Parallel()
	used := map[string]map[string]bool{}
	inHomes := map[string]map[string]bool{}
	for _, file := range tree(t) {
		for _, imported := range file.imports {
			if name, _, listed := homesOf(imported); listed {
				inHomes[name] = orNew(inHomes[name])
				inHomes[name][file.folder()] = true
			}
		}
		if file.test() {
			used[file.folder()] = orNew(used[file.folder()])
			continue
		}
		targets := orNew(used[file.folder()])
		used[file.folder()] = targets
		for _, imported := range file.imports {
			if to, ours := strings.CutPrefix(imported, module); ours {
				targets[to] = true
			}
		}
	}
	for from, allowed := range arrows {
		if used[from] == nil {
			t.Errorf("the table of imports lists %s, which does not exist", from)
			continue
		}
		for _, to := range allowed {
			if !used[from][to] {
				t.Errorf("the table of imports allows %s to import %s, which it does not need", from, to)
			}
		}
	}
	for name, packages := range homes {
		for _, home := range packages {
			if !inHomes[name][home] {
				t.Errorf("the homes of %s list %s, which does not import it", name, home)
			}
		}
	}
}

func orNew(m map[string]bool) map[string]bool {
	if m == nil {
		return map[string]bool{}
	}
	return m
}

// TestTableOfImportsHasAnOrder fails when the arrows form a circle.
func TestTableOfImportsHasAnOrder(t *testing.T) {
	t.Parallel()
	if circle := findCircle(arrows); circle != nil {
		t.Errorf("packages import each other in a circle: %s", strings.Join(circle, " → "))
	}
	if circle := findCircle(map[string][]string{"a": {"b"}, "b": {"c"}, "c": {"a"}}); len(circle) == 0 {
		t.Error("a circle is not found")
	}
}

func findCircle(graph map[string][]string) []string {
	done := map[string]bool{}
	var trail []string
	var visit func(string) []string
	visit = func(name string) []string {
		if i := slices.Index(trail, name); i >= 0 {
			return append(slices.Clone(trail[i:]), name)
		}
		if done[name] {
			return nil
		}
		trail = append(trail, name)
		defer func() { trail = trail[:len(trail)-1] }()
		for _, to := range graph[name] {
			if circle := visit(to); circle != nil {
				return circle
			}
		}
		done[name] = true
		return nil
	}
	for name := range graph {
		if circle := visit(name); circle != nil {
			return circle
		}
	}
	return nil
}

// TestImportFaults tries the rule on imports that must fail, and on similar
// ones that must not.
func TestImportFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		from, imported string
		test           bool
		want           string
	}{
		{"readapi", module + "projections", false, "readapi may not import projections; it may import"},
		{"readapi", module + "projections", true, "tests of readapi may not import projections"},
		{"readapi", module + "readapi/access", false, ""},
		{"readapi/access", module + "readapi", false, "readapi/access may not import readapi"},
		{"delivery", module + "readapi/access", false, "delivery may not import readapi/access"},
		{"readapi/access", module + "migrations", false, "readapi/access may not import migrations"},
		{"readapi/access", module + "migrations", true, ""},
		{"migrations", module + "eventlog", false, "migrations may not import eventlog"},
		{"internal/pg", module + "eventlog", false, "internal/pg may not import eventlog"},
		{"domain", module + "internal/pg", false, "domain may not import internal/pg"},
		{"domain", "github.com/google/uuid", false, "domain may import only the standard library"},
		{"delivery/dispatch", "github.com/ThreeDotsLabs/watermill/message", false, ""},
		{"delivery", "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql", false, "delivery may not import github.com/ThreeDotsLabs/watermill-sql; packages that may: cmd/ledgerfeed-chaos/internal/workload, eventlog/watermillsql, internal/ingest, internal/ingest/outbox"},
		{"eventlog", "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql", true, "eventlog may not import github.com/ThreeDotsLabs/watermill-sql"},
		{"readapi", "github.com/ThreeDotsLabs/watermill/message", true, "readapi may not import github.com/ThreeDotsLabs/watermill"},
		{"domain", "pgregory.net/rapid", true, ""},
		{"domain", "crypto/sha256", false, ""},
		{"docs/receivers/go", "net/http", false, ""},
		{"docs/receivers/go", "github.com/google/uuid", false, "docs/receivers/go may import only the standard library"},
		{"docs/receivers/go", module + "delivery", false, "docs/receivers/go may not import delivery"},
		{"cmd/other", "fmt", false, "package cmd/other is not in the table"},
		{"domain/nonsense", "fmt", false, "package domain/nonsense is not in the table"},
		{".", "fmt", false, "package . is not in the table"},
		{"eventlog", module + "billing", false, "eventlog may not import billing"},
	} {
		got := importFault(c.from, c.test, c.imported)
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s (test: %v) imports %s: %q, want %q", c.from, c.test, c.imported, got, c.want)
		}
	}
}

// TestTopLevel: the names at the top of the repository are fixed.
func TestTopLevel(t *testing.T) {
	t.Parallel()
	want := []string{"cmd", "delivery", "docs", "domain", "eventlog", "internal", "migrations", "projections", "readapi"}
	found := map[string]bool{}
	for _, file := range tree(t) {
		found[strings.Split(file.path, "/")[0]] = true
	}
	for name := range found {
		if !slices.Contains(want, name) {
			t.Errorf("Go files in %s; the folders at the top are %s", name, strings.Join(want, ", "))
		}
	}
}
