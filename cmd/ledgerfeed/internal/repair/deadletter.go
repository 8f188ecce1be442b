// This file has the commands about messages of a source that the log has refused.

package repair

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/operate"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/service"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/ingest"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

// IngestCommand is ledgerfeed ingest.
func IngestCommand(env *operate.Env) *cobra.Command {
	dead := cli.Group("dead", "List, show, retry or drop dead letters: messages that the log has refused",
		deadListCommand(env), deadShowCommand(env), deadRetryCommand(env), deadDropCommand(env))
	dead.Long = `List, show, retry or drop dead letters: messages of a source that the log has refused.

The commands work on the source at LEDGERFEED_INGEST_URL, which has to be the same as for
the process that ingests it.`
	return cli.Group("ingest", "Handle messages that ingest could not append", dead)
}

// withDeadLetters does the work of a command with the source of the settings.
func withDeadLetters(ctx context.Context, env *operate.Env, work func(ingest.DeadLetters) error) error {
	source, _, err := service.OpenSource(ctx, env, nil)
	if err != nil {
		return err
	}
	defer source.Close()
	return work(source)
}

// deadLetterView is a dead letter without what its message says: that may be about people.
type deadLetterView struct {
	ID          string `json:"id"`
	At          string `json:"at"` // when it became one
	MessageID   string `json:"message_id"`
	WorkspaceID string `json:"workspace_id,omitempty"` // empty: cannot be read
	EntryID     string `json:"entry_id,omitempty"`     // the same, or the message's id is the entry's
	Reason      string `json:"reason"`
	LeftOut     string `json:"left_out,omitempty"` // of the message
}

func viewDeadLetter(l *ingest.Letter) deadLetterView {
	workspaceID, id := l.Entry()
	return deadLetterView{l.ID.String(), domain.FormatTime(l.At), l.Message.UUID, workspaceID, id, l.Reason, l.Cut}
}

// deadLettersView is a page of dead letters.
type deadLettersView struct {
	Source  string           `json:"source"`
	Letters []deadLetterView `json:"letters"`
	More    bool             `json:"more"` // after the last one
}

func viewDeadLetters(of ingest.DeadLetters, list []ingest.Letter) *deadLettersView {
	v := &deadLettersView{Source: of.Name(), Letters: []deadLetterView{}}
	for i := range list {
		v.Letters = append(v.Letters, viewDeadLetter(&list[i]))
	}
	return v
}

const mostDeadLetters = 1000

func deadListCommand(env *operate.Env) *cobra.Command {
	var (
		after string
		limit int
	)
	c := &cobra.Command{
		Use:   "list",
		Short: "List dead letters, oldest first, with the reasons",
		Long: `List dead letters, oldest first, with the reasons. Of a message's payload, the list shows
only the ids of the workspace and the entry.`,
		Args: cli.ExactArgs(0),
		RunE: env.RunReading(func(ctx context.Context, _ []string) error {
			if limit < 1 || limit > mostDeadLetters {
				return cli.Usagef("--limit is %d: want 1 to %d", limit, mostDeadLetters)
			}
			var from ingest.LetterID
			if after != "" {
				id, err := ingest.ParseLetterID(after)
				if err != nil {
					return cli.Usagef("--after: %v", err)
				}
				from = id.Next()
			}
			return withDeadLetters(ctx, env, func(of ingest.DeadLetters) error {
				v, err := listDeadLetters(ctx, of, from, limit)
				if err != nil {
					return err
				}
				return env.Print(v, func(out io.Writer) error { return writeDeadLetters(out, v) })
			})
		}),
	}
	c.Flags().StringVar(&after, "after", "", "begin after this dead letter")
	c.Flags().IntVar(&limit, "limit", 50, "the most dead letters to list")
	return c
}

func listDeadLetters(ctx context.Context, of ingest.DeadLetters, from ingest.LetterID, limit int) (*deadLettersView, error) {
	v := viewDeadLetters(of, nil)
	for {
		page, err := of.Letters(ctx, from, limit+1-len(v.Letters))
		if err != nil || len(page) == 0 {
			return v, err
		}
		for i := range page {
			if v.More = len(v.Letters) == limit; v.More {
				return v, nil
			}
			v.Letters = append(v.Letters, viewDeadLetter(&page[i]))
			from = page[i].ID.Next()
		}
	}
}

func writeDeadLetters(out io.Writer, v *deadLettersView) error {
	if len(v.Letters) == 0 {
		_, err := fmt.Fprintf(out, "%s has no dead letters.\n", v.Source)
		return err
	}
	fmt.Fprintf(out, "Dead letters of %s:\n", v.Source)
	err := cli.Table(out, "ID\tSINCE\tWORKSPACE\tENTRY\tMESSAGE\tREASON", v.Letters, func(l *deadLetterView) string {
		reason := l.Reason
		if l.LeftOut != "" {
			reason += "; cannot be retried without " + l.LeftOut
		}
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s", l.ID, l.At, cmp.Or(l.WorkspaceID, "-"), cmp.Or(l.EntryID, "-"), cmp.Or(cli.Printable(l.MessageID), "-"), cli.Printable(reason))
	})
	if err != nil {
		return err
	}
	if v.More {
		fmt.Fprintf(out, "There are more: --after %s\n", v.Letters[len(v.Letters)-1].ID)
	}
	return nil
}

// deadLetterShowView is a whole dead letter.
type deadLetterShowView struct {
	deadLetterView

	Source   string `json:"source"`
	Subject  string `json:"subject,omitempty"` // of a stream's message
	Sequence string `json:"stream_sequence,omitempty"`
	Headers  string `json:"headers,omitempty"`     // in JSON, as they came
	Payload  string `json:"payload,omitempty"`     // if it is UTF-8
	Binary   []byte `json:"payload_b64,omitempty"` // otherwise
}

func deadShowCommand(env *operate.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "show ID",
		Short: "Show a dead letter with all that its message says",
		Args:  cli.ExactArgs(1),
		RunE: env.RunReading(func(ctx context.Context, args []string) error {
			return withDeadLetters(ctx, env, func(of ingest.DeadLetters) error {
				list, err := findDeadLetters(ctx, of, args)
				if err != nil {
					return err
				}
				l := &list[0]
				v := deadLetterShowView{deadLetterView: viewDeadLetter(l), Source: of.Name(), Subject: l.Message.Subject, Sequence: l.Sequence, Headers: string(l.Message.Headers)}
				if utf8.Valid(l.Message.Payload) {
					v.Payload = string(l.Message.Payload)
				} else {
					v.Binary = l.Message.Payload
				}
				return env.Print(v, v.write)
			})
		}),
	}
}

func (v *deadLetterShowView) write(out io.Writer) error {
	lines := slices.DeleteFunc([][2]string{
		{"id", v.ID}, {"source", v.Source}, {"since", v.At}, {"workspace", v.WorkspaceID}, {"entry", v.EntryID}, {"message", v.MessageID}, {"subject", v.Subject},
		{"stream sequence", v.Sequence}, {"reason", v.Reason}, {"left out", v.LeftOut}, {"headers", v.Headers},
	}, func(line [2]string) bool { return line[1] == "" })
	if err := cli.Table(out, "", lines, func(line *[2]string) string { return line[0] + "\t" + cli.Printable(line[1]) }); err != nil {
		return err
	}
	payload := v.Payload
	if strings.ContainsFunc(payload, func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' && r != '\t' && r != '\r' }) || len(v.Binary) > 0 {
		payload = fmt.Sprintf("%q", payload+string(v.Binary))
	}
	_, err := fmt.Fprintf(out, "\n%s\n", payload)
	return err
}

// findDeadLetters returns the dead letters with the ids of a command line.
func findDeadLetters(ctx context.Context, of ingest.DeadLetters, args []string) ([]ingest.Letter, error) {
	ids := make([]ingest.LetterID, len(args))
	for i, text := range args {
		id, err := ingest.ParseLetterID(text)
		if err != nil {
			return nil, &cli.UsageError{Err: err}
		}
		ids[i] = id
	}
	return ingest.Find(ctx, of, ids)
}

func checkWhichLetters(ids []string, all bool) error {
	if all == (len(ids) > 0) {
		return cli.Usagef("want the ids of dead letters, or --all")
	}
	return nil
}

// retriedView is what retry prints as JSON.
type retriedView struct {
	Appended int              `json:"appended"`
	Skipped  int              `json:"skipped"` // the log had them
	Kept     int              `json:"kept"`
	Letters  []deadLetterView `json:"letters"` // the first of the kept ones
}

// mostNamed is how many letters retry and drop name.
const mostNamed = 20

func deadRetryCommand(env *operate.Env) *cobra.Command {
	var all, force bool
	c := &cobra.Command{
		Use:   "retry ID… | --all",
		Short: "Append dead letters anew",
		Long: `Append the messages of dead letters anew, oldest first, by the rules of the source. An
appended message is no dead letter any more. If the log still refuses a message, its dead
letter stays, with the new reason, and the exit status is 1.

The entries are appended at the end of the log. If an invoice, client or other object has
had an entry since, an old message about it could put old values over new ones. So its dead
letter stays, too, unless you give --force.

You can interrupt the command and run it again: nothing is appended twice. The command
needs LEDGERFEED_CREATE_WORKSPACES as the process that ingests has it.`,
		Args: cobra.ArbitraryArgs,
		RunE: env.RunReading(func(ctx context.Context, ids []string) error {
			if err := checkWhichLetters(ids, all); err != nil {
				return err
			}
			return env.WithDeps(ctx, func(d *operate.Deps) error { return retryDeadLetters(ctx, env, d, ids, force) })
		}),
	}
	c.Flags().BoolVar(&all, "all", false, "all dead letters that there are now")
	c.Flags().BoolVar(&force, "force", false, "also those whose objects have newer entries")
	return c
}

// retryDeadLetters retries the letters with some ids; none: all.
func retryDeadLetters(ctx context.Context, env *operate.Env, d *operate.Deps, ids []string, force bool) error {
	source, rules, err := service.OpenSource(ctx, env, d.Pool)
	if err != nil {
		return err
	}
	defer source.Close()
	i, err := ingest.New(ingest.Config{Source: source, Rules: rules, CreateWorkspaces: env.Settings.CreateWorkspaces, Log: d.Log, Logger: env.Logger, Clock: env.Clock})
	if err != nil {
		return err
	}
	v := retriedView{Letters: []deadLetterView{}}
	retry := func(page []ingest.Letter) error {
		r, err := i.Retry(ctx, page, force)
		v.Appended, v.Skipped, v.Kept = v.Appended+r.Appended, v.Skipped+r.Skipped, v.Kept+len(r.Kept)
		first := r.Kept[:min(len(r.Kept), mostNamed-len(v.Letters))]
		v.Letters = append(v.Letters, viewDeadLetters(source, first).Letters...)
		return err
	}
	_, each, err := selectDeadLetters(ctx, source, ids)
	if err == nil {
		err = each(retry)
	}
	if err != nil {
		return err
	}
	if err := env.Print(v, func(out io.Writer) error { return v.write(out, source.Name()) }); err != nil {
		return err
	}
	if v.Kept > 0 {
		return &cli.ExitError{Status: cli.ExitFailed}
	}
	return nil
}

// selectDeadLetters chooses the letters with some ids, or without ids all that there are now. It
// returns the first of them, and a function that goes through all of them in pages.
func selectDeadLetters(ctx context.Context, of ingest.DeadLetters, ids []string) (first []ingest.Letter, each func(func([]ingest.Letter) error) error, err error) {
	if len(ids) > 0 {
		list, err := findDeadLetters(ctx, of, ids)
		return list, func(do func([]ingest.Letter) error) error { return do(list) }, err
	}
	newest, err := of.Newest(ctx)
	if err != nil || newest == nil {
		return nil, func(func([]ingest.Letter) error) error { return nil }, err
	}
	first, err = of.Letters(ctx, ingest.LetterID{}, mostNamed)
	return first, func(do func([]ingest.Letter) error) error { return ingest.Pages(ctx, of, newest.ID, do) }, err
}

func (v *retriedView) write(out io.Writer, source string) error {
	fmt.Fprintf(out, "appended %d, skipped %d, kept %d\n", v.Appended, v.Skipped, v.Kept)
	if v.Kept == 0 {
		return nil
	}
	if v.Kept > len(v.Letters) {
		fmt.Fprintf(out, "The first %d that stay:\n", len(v.Letters))
	}
	return writeDeadLetters(out, &deadLettersView{Source: source, Letters: v.Letters})
}

func deadDropCommand(env *operate.Env) *cobra.Command {
	var all, yes bool
	c := &cobra.Command{
		Use:   "drop ID… | --all",
		Short: "Delete dead letters for good",
		Long: `Delete dead letters for good. The command lists them, with --all the first 20, and asks you
first, unless you give --yes.`,
		Args: cobra.ArbitraryArgs,
		RunE: env.RunReading(func(ctx context.Context, ids []string) error {
			if err := checkWhichLetters(ids, all); err != nil {
				return err
			}
			return withDeadLetters(ctx, env, func(of ingest.DeadLetters) error { return dropDeadLetters(ctx, env, of, ids, yes) })
		}),
	}
	c.Flags().BoolVar(&all, "all", false, "all dead letters that there are now")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return c
}

// dropDeadLetters drops the letters with some ids; none: all.
func dropDeadLetters(ctx context.Context, env *operate.Env, of ingest.DeadLetters, ids []string, yes bool) error {
	first, each, err := selectDeadLetters(ctx, of, ids)
	if err != nil {
		return err
	}
	if err := writeDeadLetters(env.ErrOut, viewDeadLetters(of, first)); err != nil {
		return err
	}
	if !yes && len(first) > 0 {
		n := int64(len(first))
		if len(ids) == 0 {
			if n, err = of.Waiting(ctx); err != nil {
				return err
			}
		}
		if err := env.Confirm(ingest.Counted(n) + texts.Plural(n, " dead letter is", " dead letters are") + " deleted for good."); err != nil {
			return err
		}
	}
	dropped := 0
	err = each(func(page []ingest.Letter) error {
		gone := make([]ingest.LetterID, len(page))
		for i := range page {
			gone[i] = page[i].ID
		}
		dropped += len(page)
		return of.Settle(ctx, gone, nil)
	})
	if err != nil {
		return err
	}
	return env.Print(map[string]int{"dropped": dropped}, env.Line(texts.Count(dropped, "dead letter is", "dead letters are")+" deleted."))
}
