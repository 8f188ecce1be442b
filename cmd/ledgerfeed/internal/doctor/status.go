package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/operate"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/service"
	"github.com/ledgerfeed/ledgerfeed/delivery/dispatch"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/relay"
	"github.com/ledgerfeed/ledgerfeed/internal/standby"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
	"github.com/ledgerfeed/ledgerfeed/projections"
	"github.com/ledgerfeed/ledgerfeed/projections/anomaly"
)

// statusView is what status prints as JSON.
type statusView struct {
	Projections []*projections.Status `json:"projections"`
	Delivery    []dispatch.Lag        `json:"delivery"`               // one for each webhook
	Relays      []relay.Status        `json:"relays"`                 // one for each that ever ran
	DeadLetters *service.DeadLetters  `json:"dead_letters,omitempty"` // of the source at LEDGERFEED_INGEST_URL
	Standbys    *standby.State        `json:"standbys,omitempty"`     // at LEDGERFEED_READ_DATABASE_URL
	NotReadable []string              `json:"not_readable,omitempty"` // what this account of PostgreSQL may not read
	Connections *service.ServerUse    `json:"connections"`            // of PostgreSQL, by the processes that serve
}

// StatusCommand is ledgerfeed status.
func StatusCommand(env *operate.Env) *cobra.Command {
	var (
		workspace string
		wait      bool
		timeout   texts.DurationFlag
	)
	c := &cobra.Command{
		Use:   "status",
		Short: "Show how far the read models are, anomalies, and quarantined workspaces",
		Long: `Show how far the read models, webhooks, relays and standbys are. The command also shows
anomalies, quarantined workspaces, dead letters of the source at LEDGERFEED_INGEST_URL,
the serving processes, and how many connections to PostgreSQL they have.

It counts the first 1000 anomalies of each workspace, and lists them with --json.
ledgerfeed anomaly show has all of them.`,
		Args: cli.ExactArgs(0),
		RunE: env.RunReading(func(ctx context.Context, _ []string) error {
			return env.WithDeps(ctx, func(d *operate.Deps) error {
				if wait {
					if err := d.AwaitProjected(ctx, workspace, time.Duration(timeout), service.NoProjector); err != nil {
						return err
					}
				}
				s, err := projections.ReadStatus(ctx, d.Pool, workspace)
				if err != nil {
					return err
				}
				if env.Rules.Version > 0 {
					s.CompareRules(env.Rules.Version)
				}
				v := statusView{Projections: []*projections.Status{s}, Delivery: []dispatch.Lag{}}
				switch lags, err := dispatch.ReadStatus(ctx, d.Pool, workspace); {
				case pg.Forbidden(err):
					v.NotReadable = []string{"webhooks"}
				case err != nil:
					return err
				case lags != nil:
					v.Delivery = lags
				}
				if v.Relays, err = relay.ReadStatus(ctx, d.Pool, workspace); err != nil {
					return err
				}
				v.DeadLetters = service.LookAtDeadLetters(ctx, env)
				if v.Standbys, err = service.LookAtStandbys(ctx, env, d.Pool); err != nil {
					return err
				}
				if v.Connections, err = service.ReadServerUse(ctx, env, d.Database, d.Pool); err != nil {
					return err
				}
				groups, err := anomaly.NewStore(d.Pool, env.Clock).Groups(ctx, anomaly.Filter{WorkspaceID: workspace, First: anomaly.MostGrouped})
				if err != nil {
					return err
				}
				return env.Print(v, func(out io.Writer) error {
					return errors.Join(writeStatus(out, s), writeLags(out, &v), writeRelays(out, v.Relays), writeDeadLetters(out, v.DeadLetters), writeStandbys(out, v.Standbys), writeConnections(out, v.Connections, d.Pooled), writeAnomalies(out, groups))
				})
			})
		}),
	}
	c.Flags().StringVar(&workspace, "workspace", "", "only this workspace")
	c.Flags().BoolVar(&wait, "wait", false, "return when the projector has handled every entry that is in the log now")
	c.Flags().Var(&timeout, "timeout", "with --wait: fail after this time (default: wait as long as it takes)")
	return c
}

func writeStatus(out io.Writer, s *projections.Status) error {
	fmt.Fprintf(out, "%s: %d of %s, lag %s and %.1f s, %s %s, %d quarantined\n",
		s.Name, s.Position, texts.Count(s.Head, "entry", "entries"), texts.Count(s.LagEntries, "entry", "entries"), s.LagSeconds, anomalyCount(s.Anomalies, s.More), texts.Plural(s.Anomalies, "anomaly", "anomalies"), s.Quarantined)
	err := cli.Table(out, "WORKSPACE\tPOSITION\tHEAD\tLAG\tSECONDS\tANOMALIES\tSTATE", s.Workspaces, func(w *projections.WorkspaceStatus) string {
		return fmt.Sprintf("%s\t%d\t%d\t%d\t%.1f\t%s\t%s", w.WorkspaceID, w.Position, w.Head, w.LagEntries, w.LagSeconds, anomalyCount(int64(len(w.Anomalies)), w.More), workspaceState(w))
	})
	if err != nil {
		return err
	}
	if s.OtherRules > 0 {
		fmt.Fprintf(out, "%s rows made by other rules than this program's, version %d: the role project rebuilds older ones in the background, ledgerfeed rebuild all of them at once\n", texts.Count(s.OtherRules, "workspace has", "workspaces have"), s.Rules)
	}
	for i := range s.Workspaces {
		w := &s.Workspaces[i]
		if w.Waits(s.Rules) {
			fmt.Fprintf(out, "%s has rows made by rules %d\n", w.WorkspaceID, w.Rules)
		}
		if w.Skipped > 0 {
			fmt.Fprintf(out, "%s: %s skipped: ledgerfeed quarantine list\n", w.WorkspaceID, texts.Count(w.Skipped, "entry was", "entries were"))
		}
		if w.Error != nil {
			fmt.Fprintf(out, "%s at position %d, after %s: %s\n", w.WorkspaceID, w.Position+1, texts.Count(w.Failures, "failure", "failures"), *w.Error)
		}
	}
	return nil
}

// anomalyCount writes how many anomalies there are; more: counting stopped before the end.
func anomalyCount(n int64, more bool) string {
	if more {
		return fmt.Sprintf("at least %d", n)
	}
	return fmt.Sprint(n)
}

// writeAnomalies lists those that nobody has looked at yet.
func writeAnomalies(out io.Writer, groups []anomaly.Group) error {
	if len(groups) == 0 {
		return nil
	}
	err := cli.Table(out, "\nWORKSPACE\tREASON\tTYPE\tENTRIES\tPOSITIONS\tLAST OBJECT", groups, func(g *anomaly.Group) string {
		return fmt.Sprintf("%s\t%s\t%s\t%d\t%d – %d\t%s %s", g.WorkspaceID, g.Reason, g.Type, g.Count, g.FirstPosition, g.LastPosition, g.LastObjectType, g.LastObjectID)
	})
	if err != nil {
		return err
	}
	if groups[0].AtLeast {
		fmt.Fprintln(out, anomaly.OnlyFirst())
	}
	_, err = fmt.Fprintln(out, "ledgerfeed anomaly list says what the reasons mean, and anomaly show WORKSPACE lists the entries.")
	return err
}

func writeLags(out io.Writer, v *statusView) error {
	if len(v.NotReadable) > 0 {
		_, err := fmt.Fprintf(out, "\nThis account of PostgreSQL may not read %s, which are left out.\n", strings.Join(v.NotReadable, " and "))
		return err
	}
	if len(v.Delivery) == 0 {
		return nil
	}
	return cli.Table(out, "\nWEBHOOK\tWORKSPACE\tPOSITION\tVISIBLE\tLAG\tSECONDS\tWAITING\tSTATE", v.Delivery, func(l *dispatch.Lag) string {
		return fmt.Sprintf("%s\t%s\t%d\t%d\t%d\t%.1f\t%d\t%s", l.WebhookID, l.WorkspaceID, l.Position, l.Visible, l.Entries, l.Seconds, l.Waiting, l.Shown())
	})
}

func writeRelays(out io.Writer, list []relay.Status) error {
	if len(list) == 0 {
		return nil
	}
	err := cli.Table(out, "\nRELAY\tPOSITION\tVISIBLE\tLAG\tSECONDS\tFAILING WORKSPACES", list, func(r *relay.Status) string {
		return fmt.Sprintf("%s\t%d\t%d\t%d\t%.1f\t%d", r.Name, r.Position, r.Visible, r.LagEntries, r.LagSeconds, r.Failing)
	})
	if err != nil {
		return err
	}
	for i := range list {
		for _, f := range list[i].Errors {
			fmt.Fprintf(out, "%s cannot send %s from position %d on: %s\n", list[i].Name, f.WorkspaceID, f.Position, f.Error)
		}
	}
	return nil
}

func writeDeadLetters(out io.Writer, d *service.DeadLetters) (err error) {
	if d != nil && d.Held != nil {
		fmt.Fprintf(out, "\n%s.\n", d.HeldUp())
	}
	switch {
	case d == nil:
	case d.Problem != "":
		_, err = fmt.Fprintf(out, "\nThe dead letters of %s cannot be counted: %s.\n", d.Source, d.Problem)
	case d.Count > 0:
		_, err = fmt.Fprintf(out, "\n%s: ledgerfeed ingest dead list says why.\n", d.Counted())
	}
	return err
}

func writeStandbys(out io.Writer, is *standby.State) (err error) {
	switch {
	case is == nil:
	case is.Used:
		_, err = fmt.Fprintf(out, "\nAnswers are read from the standbys at %s, %.2f s behind at most.\n", is.Name, is.Behind)
	default:
		_, err = fmt.Fprintf(out, "\nAnswers are not read from the standbys at %s: %s.\n", is.Name, is.Problem)
	}
	return err
}

// writeConnections lists the processes that serve, and what PostgreSQL has left for others.
func writeConnections(out io.Writer, u *service.ServerUse, pooled bool) error {
	if len(u.Processes) == 0 {
		fmt.Fprintln(out, "\nNo process that serves is connected.")
	} else {
		err := cli.Table(out, "\nPROCESS\tADDRESS\tCONNECTIONS\tLIMIT\tROLES", u.Processes, func(p *service.Process) string {
			return fmt.Sprintf("%s\t%s\t%d\t%d\t%s", cmp.Or(p.Mark, "-"), cmp.Or(p.Address, "-"), p.Connections, p.Most, strings.Join(p.Roles, ","))
		})
		if err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "PostgreSQL: %d of %d connections %s in use, %s left (%s reserved)\n", u.Used, u.Max, texts.Plural(u.Used, "is", "are"), texts.Count(u.Left, "is", "are"), texts.Count(u.Reserved, "is", "are"))
	switch {
	case pooled:
		fmt.Fprintln(out, "Connections through the pooler are not told apart; a process is seen by the one that it has past it.")
	case u.Warning != "":
		fmt.Fprintln(out, "Warning: there are too few for another process: "+u.Warning)
	}
	return nil
}

func workspaceState(w *projections.WorkspaceStatus) string {
	switch {
	case w.Quarantined:
		return "quarantined"
	case w.Failures > 0:
		return "failing"
	case w.LagEntries > 0:
		return "behind"
	}
	return "ok"
}
