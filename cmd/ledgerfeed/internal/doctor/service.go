package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch"
	"github.com/ledgerfeed/ledgerfeed/delivery/secretkey"
	"github.com/ledgerfeed/ledgerfeed/internal/plural"
	"github.com/ledgerfeed/ledgerfeed/internal/relay"
	"github.com/ledgerfeed/ledgerfeed/internal/settings"
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
		return ok("%s set; ledgerfeed config shows all", plural.Of(set, "is", "are")), nil
	}
	return list, nil
}

func checkKeys(ctx context.Context, x *examination) ([]Finding, error) {
	state, err := secretkey.Read(ctx, x.pool, x.env.Clock())
	if err != nil {
		return nil, err
	}
	k, err := x.env.ReadKeyring(x.db)
	if err != nil {
		return nil, err
	}
	var missing *secretkey.MissingError
	if err := state.Check(k); errors.As(err, &missing) {
		return []Finding{{Level: Error, Text: missing.Error(), Do: "give this process the key that is missing"}}, nil
	} else if err != nil {
		return nil, err
	}
	if state.Sealing == nil {
		return ok("no secret has been encrypted yet"), nil
	}
	return ok("those of %s open every secret", x.env.SecretKeySource(x.db)), nil
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
			Level: Error, Text: plural.Of(s.Quarantined, "workspace waits", "workspaces wait") + " before an entry that cannot be projected",
			Do: "ledgerfeed quarantine list shows them, and quarantine show the reason",
		})
	}
	if s.LagEntries > 0 && s.Quarantined == 0 && time.Duration(s.LagSeconds*float64(time.Second)) > lateProjection {
		list = append(list, Finding{
			Level: Error, Text: plural.Of(s.LagEntries, "entry is", "entries are") + " not projected",
			Do: "see that a process with the role project runs, and read its log",
		})
	}
	if s.OtherRules > 0 {
		list = append(list, Finding{
			Level: Warning, Text: plural.Of(s.OtherRules, "workspace has", "workspaces have") + " rows made by the rules of another version",
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
			Level: Warning, Text: count + " " + plural.Word(waiting, "entry could not have its", "entries could not have their") + " effect, or not all of it",
			Do: "ledgerfeed anomaly list says why: producers have to correct what they sent; anomaly acknowledge ends this warning",
		})
	}
	if len(list) == 0 {
		return ok("%d of %s", s.Position, plural.Of(s.Head, "entry", "entries")), nil
	}
	return list, nil
}

// lateDelivery is the age of an event that was not sent yet from which something is
// wrong with the processes that deliver.
const lateDelivery = 5 * time.Minute

func checkWebhooks(ctx context.Context, x *examination) ([]Finding, error) {
	lags, err := dispatch.ReadStatus(ctx, x.pool, "")
	if err != nil {
		return nil, err
	}
	late := 0
	for i := range lags {
		if lags[i].State == "on" && lags[i].Entries > 0 && time.Duration(lags[i].Seconds*float64(time.Second)) > lateDelivery {
			late++
		}
	}
	var off, failing, paused int
	var since *time.Time
	rows, err := x.pool.Query(ctx, `SELECT count(*) FILTER (WHERE state = 'off'), count(*) FILTER (WHERE state = 'on' AND failing_since IS NOT NULL),
		       count(*) FILTER (WHERE state = 'paused'), min(paused_at) FROM webhook`)
	if err == nil {
		_, err = pgx.ForEachRow(rows, []any{&off, &failing, &paused, &since}, func() error { return nil })
	}
	if err != nil {
		return nil, fmt.Errorf("cannot count webhooks: %w", err)
	}
	var list []Finding
	if late > 0 {
		list = append(list, Finding{
			Level: Error, Text: plural.Of(late, "webhook has", "webhooks have") + " events that wait to be sent for the first time",
			Do: "see that a process with the role deliver runs, and read its log; ledgerfeed status names them",
		})
	}
	if failing > 0 || off > 0 {
		list = append(list, Finding{
			Level: Warning, Text: plural.Of(failing, "webhook fails", "webhooks fail") + ", " + plural.Of(off, "is off", "are off"),
			Do: "ledgerfeed webhook list and webhook deliveries show what their receivers answer",
		})
	}
	if paused > 0 && since != nil {
		list = append(list, Finding{
			Level: Warning, Text: fmt.Sprintf("%s paused, the first since %s", plural.Of(paused, "webhook is", "webhooks are"), since.UTC().Format(time.RFC3339)),
			Do: "ask the workspaces whether they still want that: events that have waited for longer than LEDGERFEED_RETENTION are not sent; ledgerfeed status names them",
		})
	}
	if len(list) == 0 {
		return ok("%s", plural.Of(len(lags), "webhook, which neither fails nor is late", "webhooks, none of which fails or is late")), nil
	}
	return list, nil
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
				Level: Error, Text: fmt.Sprintf("the relay %s cannot send %s", r.Name, plural.Of(r.Failing, "workspace", "workspaces")),
				Do: "ledgerfeed status names them and the reasons",
			})
		}
		if r.Failing == 0 && r.LagEntries > 0 && time.Duration(r.LagSeconds*float64(time.Second)) > lateRelay {
			list = append(list, Finding{
				Level: Error, Text: fmt.Sprintf("the relay %s has not sent %s", r.Name, plural.Of(r.LagEntries, "entry", "entries")),
				Do: "see that a process with the role relay and this LEDGERFEED_RELAY_NAME runs, and that it reaches its broker (/readyz?role=relay); docs/operations/relay.md says how to remove one that is no longer wanted",
			})
		}
	}
	if len(list) == 0 {
		return ok("%s", plural.Of(len(relays), "relay, which is not late", "relays, none of which is late")), nil
	}
	return list, nil
}
