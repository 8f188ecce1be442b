package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/wneessen/go-mail"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/operate"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/service"
	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch"
	"github.com/ledgerfeed/ledgerfeed/delivery/keyring"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/ingestapi"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/relay"
	"github.com/ledgerfeed/ledgerfeed/internal/settings"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
	"github.com/ledgerfeed/ledgerfeed/projections"
	"github.com/ledgerfeed/ledgerfeed/projections/anomaly"
)

// checkSettings looks at what Read cannot: files, and what is unwise though it is
// allowed.
func checkSettings(_ context.Context, x *examination) ([]Finding, error) {
	var list []Finding
	s := &x.env.Settings
	for _, file := range []struct{ variable, path string }{
		{"LEDGERFEED_TLS_CERT", s.TLSCert}, {"LEDGERFEED_TLS_KEY", s.TLSKey}, {"LEDGERFEED_WEBHOOK_CA_FILE", s.WebhookCAFile}, {"--config", x.env.ConfigFile()},
	} {
		if file.path == "" {
			continue
		}
		info, err := os.Stat(file.path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			list = append(list, Finding{Level: Error, Text: fmt.Sprintf("%s names %s, which does not exist", file.variable, file.path), Do: "put the file there, or change the setting"})
		case err != nil:
			return nil, fmt.Errorf("cannot look at the file of %s: %w", file.variable, err)
		case (file.variable == "LEDGERFEED_TLS_KEY" || file.variable == "--config") && info.Mode().Perm()&0o004 != 0:
			list = append(list, Finding{Level: Warning, Text: fmt.Sprintf("every account of this machine can read %s", file.path), Do: "chmod o-r " + file.path})
		}
	}
	set := 0
	for _, one := range x.env.InForce() {
		if one.From != settings.FromDefault {
			set++
		}
	}
	if len(list) == 0 {
		return ok("%s set; ledgerfeed config shows all", texts.Count(set, "is", "are")), nil
	}
	return list, nil
}

func checkKeys(ctx context.Context, x *examination) ([]Finding, error) {
	state, err := keyring.ReadState(ctx, x.pool, x.env.Clock())
	if err != nil {
		return nil, err
	}
	k, err := x.env.ReadKeyring(x.db)
	if err != nil {
		return nil, err
	}
	var missing *keyring.MissingError
	if err := state.Check(k); errors.As(err, &missing) {
		return []Finding{{Level: Error, Text: missing.Error(), Do: "give this process the key that is missing"}}, nil
	} else if err != nil {
		return nil, err
	}
	if state.Sealing == nil {
		return ok("no secret has been encrypted yet"), nil
	}
	return ok("the keys of %s open every secret", x.env.SecretKeySource(x.db)), nil
}

// lateProjection is the lag from which something is wrong: usually it is milliseconds.
const lateProjection = time.Minute

func checkReadModels(ctx context.Context, x *examination) ([]Finding, error) {
	s, err := projections.ReadStatus(ctx, x.pool, "")
	if err != nil {
		return nil, err
	}
	var list []Finding
	if s.Quarantined > 0 {
		list = append(list, Finding{
			Level: Error, Text: texts.Count(s.Quarantined, "workspace waits", "workspaces wait") + " before an entry that cannot be projected",
			Do: "ledgerfeed quarantine list shows them, and quarantine show the reason",
		})
	}
	if s.LagEntries > 0 && s.Quarantined == 0 && time.Duration(s.LagSeconds*float64(time.Second)) > lateProjection {
		list = append(list, Finding{
			Level: Error, Text: texts.Count(s.LagEntries, "entry is", "entries are") + " not projected",
			Do: "check that a process with the role project runs, and read its log",
		})
	}
	if s.OtherRules > 0 {
		list = append(list, Finding{
			Level: Warning, Text: texts.Count(s.OtherRules, "workspace has", "workspaces have") + " rows made by the rules of another version",
			Do: "they are rebuilt in the background; ledgerfeed rebuild does it now",
		})
	}
	waiting, err := anomaly.NewStore(x.pool, x.env.Clock).Waiting(ctx)
	if err != nil {
		return nil, err
	}
	if waiting > 0 {
		count := fmt.Sprint(waiting)
		if waiting == anomaly.MostWaiting {
			count = "at least " + count
		}
		list = append(list, Finding{
			Level: Warning, Text: count + " " + texts.Plural(waiting, "entry", "entries") + " had no effect, or only a part of it",
			Do: "ledgerfeed anomaly list says why: producers have to correct what they sent; anomaly acknowledge ends this warning",
		})
	}
	if len(list) == 0 {
		return ok("%d of %s", s.Position, texts.Count(s.Head, "entry", "entries")), nil
	}
	return list, nil
}

// checkPeople looks for deletions of detached values that do not end, and for ids that look like
// names.
func checkPeople(ctx context.Context, x *examination) ([]Finding, error) {
	var list []Finding
	var pending int64
	err := x.pool.QueryRow(ctx, `
		SELECT count(*) FROM log_forgotten f JOIN event_log e ON e.workspace_id = f.workspace_id AND e.position = f.position
		 WHERE f.ended_at IS NULL AND e.created_at < now() - interval '10 minutes'`).Scan(&pending)
	if err != nil {
		return nil, fmt.Errorf("cannot count deletions: %w", err)
	}
	if pending > 0 {
		list = append(list, Finding{
			Level: Error, Text: fmt.Sprintf("%s of detached values %s not ended after 10 minutes", texts.Count(pending, "deletion", "deletions"), texts.Plural(pending, "has", "have")),
			Do: "start a process with the role project: it waits for the read models, and then deletes the values",
		})
	}
	var (
		workspaceID, id, first string
		named, looked          int
	)
	if err := pg.ForEach(ctx, x.pool, `(SELECT workspace_id, id FROM client LIMIT $1) UNION ALL (SELECT workspace_id, id FROM contractor LIMIT $1)`, []any{mostPeople}, []any{&workspaceID, &id}, func() error {
		if looked++; domain.LooksPersonal(id) {
			if named++; named == 1 {
				first = id + " of " + workspaceID
			}
		}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("cannot read ids: %w", err)
	}
	if named > 0 {
		list = append(list, Finding{
			Level: Warning, Text: fmt.Sprintf("of %s that were looked at, %d %s like a name, such as %s", texts.Count(looked, "id of a client or contractor", "ids of clients and contractors"), named, texts.Plural(named, "looks", "look"), first),
			Do: "give people ids that say nothing: ids are shown for ever, also when the person is forgotten (docs/operations/erasure.md)",
		})
	}
	if len(list) > 0 {
		return list, nil
	}
	return ok("values of forgotten people are deleted in time; no id looks like a name"), nil
}

// mostPeople is how many ids of each kind of party checkPeople looks at.
const mostPeople = 5000

// lateDelivery is the age of an event that was not sent yet from which something is
// wrong with the processes that deliver.
const lateDelivery = 5 * time.Minute

func checkWebhooks(ctx context.Context, x *examination) ([]Finding, error) {
	lags, err := dispatch.ReadStatus(ctx, x.pool, "")
	if err != nil {
		return nil, err
	}
	late, waiting := 0, int64(0)
	for i := range lags {
		if lags[i].State != "on" {
			continue
		}
		waiting += lags[i].Waiting
		if lags[i].Entries > 0 && time.Duration(lags[i].Seconds*float64(time.Second)) > lateDelivery {
			late++
		}
	}
	var off, failing, paused int
	var since *time.Time
	var ids []string // of the failing webhooks; the one that has failed longest comes first
	err = x.pool.QueryRow(ctx, `SELECT count(*) FILTER (WHERE state = 'off'), count(*) FILTER (WHERE state = 'on' AND failing_since IS NOT NULL),
		       count(*) FILTER (WHERE state = 'paused'), min(paused_at),
		       ARRAY(SELECT webhook_id FROM webhook WHERE state = 'on' AND failing_since IS NOT NULL ORDER BY failing_since, webhook_id LIMIT $1)
		  FROM webhook`, mostNamed).Scan(&off, &failing, &paused, &since, &ids)
	if err != nil {
		return nil, fmt.Errorf("cannot count webhooks: %w", err)
	}
	var list []Finding
	if late > 0 {
		list = append(list, Finding{
			Level: Error, Text: texts.Count(late, "webhook has", "webhooks have") + " events that wait to be sent for the first time",
			Do: "check that a process with the role deliver runs, and read its log; ledgerfeed status names them",
		})
	}
	if failing > 0 || off > 0 {
		list = append(list, Finding{
			Level: Warning, Text: failingText(failing, off, waiting, ids),
			Do: "ledgerfeed webhook list and webhook deliveries show what their receivers answer. After webhook turn-on, send-missed sends what was published meanwhile, and recover what has failed",
		})
	}
	if paused > 0 && since != nil {
		list = append(list, Finding{
			Level: Warning, Text: fmt.Sprintf("%s paused, the first since %s", texts.Count(paused, "webhook is", "webhooks are"), since.UTC().Format(time.RFC3339)),
			Do: "ask the workspaces whether they still want that: events that have waited for longer than LEDGERFEED_RETENTION are not sent; ledgerfeed status names them",
		})
	}
	switch {
	case len(list) > 0:
		return list, nil
	case len(lags) == 0:
		return ok("there is none"), nil
	default:
		return ok("%s", texts.Count(len(lags), "webhook: it neither fails nor is late", "webhooks: none fails or is late")), nil
	}
}

// failingText says which webhooks fail or are off, without what there is none of. ids are failing
// webhooks, waiting the deliveries that will be tried again.
func failingText(failing, off int, waiting int64, ids []string) string {
	var parts []string
	if failing > 0 {
		parts = append(parts, texts.Count(failing, "webhook fails", "webhooks fail")+named(ids, failing))
	}
	if off > 0 {
		parts = append(parts, texts.Count(off, "webhook is off", "webhooks are off"))
	}
	if waiting > 0 {
		parts = append(parts, texts.Count(waiting, "delivery waits", "deliveries wait")+" for another attempt")
	}
	return strings.Join(parts, ", ")
}

// mostNamed is how many failing webhooks are named.
const mostNamed = 5

// named writes the ids of all things, or of the first ones.
func named(ids []string, all int) string {
	if len(ids) == 0 {
		return ""
	}
	list := strings.Join(ids, ", ")
	if all > len(ids) {
		list += fmt.Sprintf(" and %d more", all-len(ids))
	}
	return " (" + list + ")"
}

// lateRelay is the age of an entry that was not sent to a message broker from which
// something is wrong.
const lateRelay = 5 * time.Minute

func checkRelays(ctx context.Context, x *examination) ([]Finding, error) {
	relays, err := relay.ReadStatus(ctx, x.pool, "")
	if err != nil {
		return nil, err
	}
	var list []Finding
	for i := range relays {
		r := &relays[i]
		if r.Failing > 0 {
			list = append(list, Finding{
				Level: Error, Text: fmt.Sprintf("the relay %s cannot send %s", r.Name, texts.Count(r.Failing, "workspace", "workspaces")),
				Do: "ledgerfeed status names them and the reasons",
			})
		}
		if r.Failing == 0 && r.LagEntries > 0 && time.Duration(r.LagSeconds*float64(time.Second)) > lateRelay {
			list = append(list, Finding{
				Level: Error, Text: fmt.Sprintf("the relay %s has not sent %s", r.Name, texts.Count(r.LagEntries, "entry", "entries")),
				Do: "check that a process with the role relay and this name in LEDGERFEED_RELAY_URL runs, and that it reaches its broker (/readyz?role=relay); docs/operations/relay.md says how to remove one that is no longer wanted",
			})
		}
	}
	if len(relays) == 0 {
		return ok("there is none"), nil
	}
	if len(list) == 0 {
		return ok("%s", texts.Count(len(relays), "relay: it is not late", "relays: none is late")), nil
	}
	return list, nil
}

// checkDeadLetters looks for messages that ingest could not append.
func checkDeadLetters(ctx context.Context, x *examination) ([]Finding, error) {
	d := service.LookAtDeadLetters(ctx, x.env)
	if d == nil {
		return checkIngestsElsewhere(ctx, x)
	}
	var list []Finding
	if d.Held != nil {
		list = append(list, Finding{
			Level: Warning, Text: d.HeldUp(),
			Do: fmt.Sprintf("end that transaction: SELECT pg_terminate_backend(%d) in the producer's database. Ingest reads a message when all older transactions have ended", d.Held.Session),
		})
	}
	switch {
	case d.Problem != "":
		list = append(list, Finding{
			Level: Error, Text: fmt.Sprintf("cannot read the dead letters of %s: %s", d.Source, d.Problem),
			Do: "check LEDGERFEED_INGEST_URL, that this machine may connect to it, and the rights and streams that docs/operations/ingest.md asks for",
		})
	case d.Count > 0:
		list = append(list, Finding{
			Level: Error, Text: fmt.Sprintf("%s; the newest, of %s: %s", d.Counted(), domain.FormatTime(d.Newest), d.Reason),
			Do: "ledgerfeed ingest dead list shows them; remove the cause, and run ledgerfeed ingest dead retry --all, which keeps messages about objects that have newer entries; ingest dead drop deletes what nobody needs",
		})
	}
	if len(list) == 0 {
		return ok("%s has none", d.Source), nil
	}
	return list, nil
}

// checkIngestsElsewhere looks for a process that has the source which this command was not told of.
func checkIngestsElsewhere(ctx context.Context, x *examination) ([]Finding, error) {
	there, err := service.ConnectedRoles(ctx, x.pool)
	if err != nil || !slices.Contains(there, service.RoleIngest) {
		return ok("LEDGERFEED_INGEST_URL is not set here"), err
	}
	return []Finding{{
		Level: Warning, Text: "a process ingests, but this command does not know its source, so that messages which could not be appended stay unseen",
		Do: "set LEDGERFEED_INGEST_URL here, and for ledgerfeed status, to what the process has",
	}}, nil
}

// checkAPIKeys looks at the keys of readers.
func checkAPIKeys(ctx context.Context, x *examination) ([]Finding, error) {
	if step, err := operate.FirstStep(ctx, x.pool); err != nil || step != "" {
		return ok("%s", step), err
	}
	return checkBrand(ctx, x, "", "ledgerfeed key list", `
		SELECT s.prefix FROM api_key k JOIN api_key_secret s USING (workspace_id, key_id)
		 WHERE k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > $1) AND NOT s.ended AND (s.ends_at IS NULL OR s.ends_at > $1)`)
}

// checkProducers looks at the keys of producers, which have a row in each of their workspaces.
func checkProducers(ctx context.Context, x *examination) ([]Finding, error) {
	return checkBrand(ctx, x, ingestapi.KeyLead+"_", "ledgerfeed producer list", `
		SELECT min(s.prefix) AS prefix FROM producer p JOIN producer_secret s USING (workspace_id, producer_id)
		 WHERE p.revoked_at IS NULL AND (s.ends_at IS NULL OR s.ends_at > $1) GROUP BY s.hash`)
}

// checkBrand looks for keys that were made under another brand: a key begins with the brand, so that
// all of them are refused once LEDGERFEED_BRAND is another one. lead is what is before the brand, list
// the command that lists the keys, and prefixes a query for the prefixes of those in force.
func checkBrand(ctx context.Context, x *examination, lead, list, prefixes string) ([]Finding, error) {
	var (
		live, refused int
		brand         string // of some of the refused keys
	)
	// A prefix is lead, the brand, an underscore and 8 characters.
	err := x.pool.QueryRow(ctx, `
		SELECT count(*), count(*) FILTER (WHERE brand <> $2), coalesce(min(brand) FILTER (WHERE brand <> $2), '')
		  FROM (SELECT left(prefix, -9) AS brand FROM (`+prefixes+`) p) b`,
		x.env.Clock(), lead+x.env.Settings.Brand.KeyPrefix()).Scan(&live, &refused, &brand)
	if err != nil {
		return nil, fmt.Errorf("cannot read the keys: %w", err)
	}
	if live == 0 && lead == "" {
		return ok("none can be used: ledgerfeed key create makes one"), nil
	}
	if refused == 0 {
		return ok("%d can be used", live), nil
	}
	return []Finding{{
		Level: Error, Text: fmt.Sprintf("%d of %d %s made under another brand, such as %s, than LEDGERFEED_BRAND, which is %s", refused, live, texts.Plural(refused, "is refused: it was", "are refused: they were"), strings.TrimPrefix(brand, lead), x.env.Settings.Brand),
		Do: "set LEDGERFEED_BRAND to what it was, or rotate or revoke these keys (" + list + ")",
	}}, nil
}

// checkNotifications looks at how processes hear of each other's changes. Nothing depends on
// it but how soon.
func checkNotifications(_ context.Context, x *examination) ([]Finding, error) {
	if x.db.Pooled && x.db.Direct == "" {
		return []Finding{{
			Level: Warning, Text: "processes behind the pooler hear nothing of each other's changes: they find them by sweeps, after about a second",
			Do: "set LEDGERFEED_LISTEN_DATABASE_URL, the address of PostgreSQL past the pooler (docs/operations/pooler.md)",
		}}, nil
	}
	return ok("by PostgreSQL's NOTIFY"), nil
}

// checkProcesses looks for roles that no process has which is connected to the database,
// on whichever machine. The console is a choice, and so is delivering without webhooks.
func checkProcesses(ctx context.Context, x *examination) ([]Finding, error) {
	if x.db.Pooled && x.db.Direct == "" {
		return ok("which ones serve cannot be told through a pooler without LEDGERFEED_LISTEN_DATABASE_URL"), nil
	}
	there, err := service.ConnectedRoles(ctx, x.pool)
	if err != nil {
		return nil, err
	}
	wanted := []string{service.RoleAPI, service.RoleProject}
	var webhooks bool
	if err := x.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM webhook WHERE state <> 'off')`).Scan(&webhooks); err != nil {
		return nil, fmt.Errorf("cannot look for webhooks: %w", err)
	}
	if webhooks {
		wanted = append(wanted, service.RoleDeliver)
	}
	gone := slices.DeleteFunc(wanted, func(role string) bool { return slices.Contains(there, role) })
	if len(gone) == 0 {
		return ok("the roles %s are connected to the database", strings.Join(there, ", ")), nil
	}
	feels := map[string]string{service.RoleAPI: "readers get no answer", service.RoleProject: "read models do not get new entries", service.RoleDeliver: "webhooks are not sent"}
	var felt []string
	for _, role := range gone {
		felt = append(felt, feels[role])
	}
	return []Finding{{
		Level: Error, Text: fmt.Sprintf("no process with the role %s is connected to the database: %s", strings.Join(gone, " or "), strings.Join(felt, ", ")),
		Do: fmt.Sprintf("see why it ended (journalctl -u ledgerfeed, kubectl get pods) and start one: ledgerfeed serve --roles %s", strings.Join(gone, ",")),
	}}, nil
}

// checkThisMachine asks the process that serves on this machine, if one does, whether it is
// ready. One that hangs takes connections and does not answer.
func checkThisMachine(ctx context.Context, x *examination) ([]Finding, error) {
	listen := x.env.Settings.AdminListen
	answer, err := service.Ask(ctx, listen)
	var dial *net.OpError
	switch {
	case errors.As(err, &dial) && dial.Op == "dial":
		return ok("none serves at %s (LEDGERFEED_ADMIN_LISTEN) that can be asked from here", listen), nil
	case err != nil:
		return []Finding{{
			Level: Error, Text: fmt.Sprintf("what listens at %s takes connections and does not answer as a serving process does: %v", listen, err),
			Do: "if it is one, read its log and start it again; if not, give LEDGERFEED_ADMIN_LISTEN another address",
		}}, nil
	case !answer.Ready:
		return []Finding{{
			Level: Error, Text: fmt.Sprintf("the process at %s is not ready: %s", listen, answer),
			Do: "docs/operations/alerts.md says under LedgerfeedNotReady what to do about each reason",
		}}, nil
	}
	if len(answer.Reasons) > 0 {
		return []Finding{{
			Level: Warning, Text: fmt.Sprintf("the process at %s cannot serve every cell: %s", listen, answer),
			Do: "docs/operations/alerts.md says under LedgerfeedNotReady what to do about each reason",
		}}, nil
	}
	c := answer.Connections
	if c.Refused > 0 {
		return []Finding{{
			Level: Warning, Text: fmt.Sprintf("PostgreSQL has refused the process at %s %s since the process started, because a limit of connections was reached; requests waited for one of the process's open connections", listen, texts.Count(c.Refused, "new connection", "new connections")),
			Do: "raise max_connections, or bound processes by LEDGERFEED_CONNECTIONS (docs/operations/sizing.md)",
		}}, nil
	}
	return ok("the process at %s is ready; %d of the %d connections to the database that it may have %s used, %s idle", listen, c.Used, c.Most, texts.Plural(c.Used, "is", "are"), texts.Count(c.Idle, "is", "are")), nil
}

// checkMailServer connects to the server for mail, and sends none.
func checkMailServer(ctx context.Context, x *examination) ([]Finding, error) {
	if x.env.Settings.SMTPURL == "" {
		return []Finding{{Level: Warning, Text: "nobody gets mail when a webhook fails or is turned off", Do: "set LEDGERFEED_SMTP_URL and LEDGERFEED_MAIL_FROM"}}, nil
	}
	at, err := url.Parse(x.env.Settings.SMTPURL)
	if err != nil {
		return nil, errors.New("cannot read LEDGERFEED_SMTP_URL: it is no address") // without err, which has the password
	}
	port := at.Port()
	switch {
	case port != "":
	case at.Scheme == "smtps":
		port = strconv.Itoa(mail.DefaultPortSSL)
	default:
		port = strconv.Itoa(mail.DefaultPort)
	}
	address := net.JoinHostPort(at.Hostname(), port)
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return []Finding{{Level: Error, Text: "cannot connect to the mail server: " + err.Error(), Do: "check that LEDGERFEED_SMTP_URL is right and that this machine may connect to it"}}, nil //nolint:nilerr // it is the finding
	}
	if err := conn.Close(); err != nil {
		return nil, fmt.Errorf("cannot end the connection to the mail server: %w", err)
	}
	return ok("%s accepts connections", address), nil
}

// checkIdentityProvider reads the provider's discovery document.
func checkIdentityProvider(ctx context.Context, x *examination) ([]Finding, error) {
	issuer := x.env.Settings.OIDCIssuer
	if issuer == "" {
		return ok("none: people sign in with links"), nil
	}
	if _, err := oidc.NewProvider(ctx, issuer); err != nil {
		return []Finding{{
			Level: Error, Text: fmt.Sprintf("cannot read the discovery document of %s: %v", issuer, err),
			Do: "check that LEDGERFEED_OIDC_ISSUER is right and that this machine may connect to it; sign-in links work meanwhile",
		}}, nil
	}
	return ok("%s answers", issuer), nil
}
