// This file has the commands that find, export and forget what the log holds about a
// person.

package repair

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/operate"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/proof"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/service"
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/signingkey"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

// PersonCommand is ledgerfeed person.
func PersonCommand(env *operate.Env) *cobra.Command {
	return cli.Group("person", "Find, export and forget what the log holds about a client or a contractor",
		findPersonCommand(env), exportPersonCommand(env), forgetCommand(env), forgottenCommand(env))
}

// foundPerson is a line of person find.
type foundPerson struct {
	Kind     string `json:"kind"` // client or contractor
	ID       string `json:"id"`
	Entries  int    `json:"entries"`       // that contain the text
	Position int64  `json:"last_position"` // of the last of them
}

func findPersonCommand(env *operate.Env) *cobra.Command {
	var workspace string
	c := &cobra.Command{
		Use:   "find TEXT",
		Short: "Find clients and contractors by a name, an address or any other text about them",
		Long: `Find the clients and contractors that a text is about: a name, an email address, a phone
number, or a part of a description. The command reads every value that is detached from the
log of the workspace, old ones as well. Upper and lower case, accents, and the spaces and
signs in phone numbers make no difference. First and last name can be searched together.`,
		Args: cli.ExactArgs(1),
		RunE: env.RunReading(func(ctx context.Context, args []string) error {
			if workspace == "" || args[0] == "" {
				return cli.Usagef("want --workspace and a text that is not empty")
			}
			return env.WithDeps(ctx, func(d *operate.Deps) error {
				found := []foundPerson{}
				err := d.Log.FindText(ctx, workspace, args[0], func(e *domain.Entry, subjects string) error {
					for s := range strings.FieldsSeq(subjects) {
						kind, id, _ := strings.Cut(s, ":")
						i := slices.IndexFunc(found, func(f foundPerson) bool { return f.Kind == kind && f.ID == id })
						if i < 0 {
							i, found = len(found), append(found, foundPerson{Kind: kind, ID: id})
						}
						found[i].Entries++
						found[i].Position = e.Position
					}
					return nil
				})
				if err != nil {
					return err
				}
				return env.Print(found, func(out io.Writer) error { return writeFound(out, found) })
			})
		}),
	}
	c.Flags().StringVar(&workspace, "workspace", "", "the workspace")
	return c
}

func writeFound(out io.Writer, found []foundPerson) error {
	if len(found) == 0 {
		_, err := fmt.Fprintln(out, "No value of this workspace contains the text.")
		return err
	}
	return cli.Table(out, "KIND\tID\tENTRIES\tLAST POSITION", found, func(f *foundPerson) string {
		return fmt.Sprintf("%s\t%s\t%d\t%d", f.Kind, f.ID, f.Entries, f.Position)
	})
}

// subjectArgs reads the arguments client|contractor ID.
func subjectArgs(workspace string, args []string) (s eventlog.Subject, err error) {
	s = eventlog.Subject{Kind: args[0], ID: args[1]}
	switch {
	case s.Kind != eventlog.SubjectClient && s.Kind != eventlog.SubjectContractor:
		return s, cli.Usagef("there is no kind %q: want client or contractor", s.Kind)
	case !domain.IsID(s.ID):
		return s, cli.Usagef("%q is no id: want 1 to 64 of A-Z a-z 0-9 _ -", s.ID)
	case workspace == "":
		return s, cli.Usagef("--workspace is missing: want the id of a workspace")
	}
	return s, nil
}

func exportPersonCommand(env *operate.Env) *cobra.Command {
	var workspace string
	c := &cobra.Command{
		Use:   "export client|contractor ID",
		Short: "Write every value about a person, with the entry that gave it, as NDJSON",
		Long: `Write every value about a client or a contractor as NDJSON: a line for each entry, with its
position, type and publish time, and the fields that are about the person.`,
		Args: cli.ExactArgs(2),
		RunE: env.RunReading(func(ctx context.Context, args []string) error {
			s, err := subjectArgs(workspace, args)
			if err != nil {
				return err
			}
			return env.WithDeps(ctx, func(d *operate.Deps) error {
				out := json.NewEncoder(env.Out)
				out.SetEscapeHTML(false)
				return d.Log.WalkSubject(ctx, workspace, s, func(e *domain.Entry) error {
					return out.Encode(personValue{e.Position, e.ID, e.Type, domain.FormatTime(e.CreatedAt), json.RawMessage(e.Value)})
				})
			})
		}),
	}
	c.Flags().StringVar(&workspace, "workspace", "", "the workspace")
	return c
}

// personValue is a line of person export.
type personValue struct {
	Position  int64           `json:"position"`
	ID        string          `json:"id"`
	Type      string          `json:"type"`
	CreatedAt string          `json:"created_at"`
	Value     json.RawMessage `json:"value"`
}

func forgottenCommand(env *operate.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "Write who was forgotten, as the list that append --forgotten takes",
		Long: `Write who was forgotten in all workspaces, by this command or by a producer, as the list
that ledgerfeed append --forgotten takes after an older backup was restored. It has ids
only, and goes to standard output. Write it anew with each backup, and keep it elsewhere.`,
		Args: cli.ExactArgs(0),
		RunE: env.RunReading(func(ctx context.Context, _ []string) error {
			return env.WithDeps(ctx, func(d *operate.Deps) error {
				var line []byte
				return d.Log.WalkForgotten(ctx, func(e *domain.Entry) error {
					line = e.AppendNDJSON(line[:0])
					_, err := env.Out.Write(line)
					return err
				})
			})
		}),
	}
}

// forgetFlags are the flags of person forget.
type forgetFlags struct {
	workspace, reason string
	list              string // name of a file
	dryRun            bool
}

func forgetCommand(env *operate.Env) *cobra.Command {
	var f forgetFlags
	c := &cobra.Command{
		Use:   "forget client|contractor ID",
		Short: "Delete for good what the log holds about a person",
		Long: `Delete for good what the log holds about a client or a contractor: names, addresses,
contacts, descriptions and notes. The log itself stays as it is, with ids, amounts and
dates, and still proves itself.

The command appends an entry that says who is forgotten, deletes the values of all entries
before it, and waits until no reader gets them any more. You can interrupt it: run it again
to see how it ended, or leave the rest to a serving process. Nothing brings the values back
but a backup: so the command adds the entry to a list, with which ledgerfeed append
--forgotten forgets the person again after a restore. Keep the list where backups are not.
If the command ends before the line is on the list, run it again, or write the list anew
with ledgerfeed person list.

Somebody who is forgotten already is not forgotten again: the command says when that was,
at which position, appends nothing, and ends with the status 0.

Standard output has the receipt alone. Where there is a signing key, it is a signed note,
which ledgerfeed signing-key check checks; otherwise it is JSON. Standard error says the
same to people. docs/operations/erasure.md says what remains, and where.`,
		Args: cli.ExactArgs(2),
		RunE: env.Run(func(ctx context.Context, args []string) error {
			s, err := subjectArgs(f.workspace, args)
			if err != nil {
				return err
			}
			return env.WithDeps(ctx, func(d *operate.Deps) error { return f.run(ctx, env, d, s) })
		}),
	}
	c.Flags().StringVar(&f.workspace, "workspace", "", "the workspace")
	c.Flags().StringVar(&f.reason, "reason", "", "why, for the entry; do not name the person, because it is never deleted")
	c.Flags().StringVar(&f.list, "list", "", "the file that keeps who was forgotten, for append --forgotten after a restore (default forgotten.ndjson in the data directory)")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "only count what would be deleted")
	return c
}

// forgetReceipt says what was forgotten.
type forgetReceipt struct {
	WorkspaceID string `json:"workspace_id"`
	Kind        string `json:"kind"`
	ID          string `json:"id"`
	EventID     string `json:"event_id,omitempty"` // of the entry that forgets
	Position    int64  `json:"position,omitempty"`
	CreatedAt   string `json:"created_at,omitempty"`
	Values      int64  `json:"values"`             // that were deleted
	Rows        int64  `json:"rows"`               // of the read models that changed; in a later receipt, that refer to the person
	EndedAt     string `json:"ended_at,omitempty"` // when the live database had no value left
	Remains     string `json:"remains,omitempty"`
	List        string `json:"list,omitempty"` // the file that append --forgotten takes
	Note        string `json:"note,omitempty"` // the receipt as a signed note; empty: there is no key
}

// remains says where copies may be that this program cannot reach.
const remains = "the ids, amounts and dates; backups and the write-ahead log until they expire; standbys until they have replayed the deletion; " +
	"the free space of database files until VACUUM FULL or new rows overwrite it; streams of a relay with whole entries, outbox tables and dead letters; " +
	"the database that the workspace has moved from, until the move is finished; copies that readers of the API keep"

func (f *forgetFlags) run(ctx context.Context, env *operate.Env, d *operate.Deps, s eventlog.Subject) (err error) {
	r := &forgetReceipt{WorkspaceID: f.workspace, Kind: s.Kind, ID: s.ID}
	if _, err := d.Log.Head(ctx, f.workspace); err != nil {
		return err
	}
	if err := r.count(ctx, d, s); err != nil {
		return err
	}
	position, err := d.Log.ForgottenAt(ctx, f.workspace, s)
	if err != nil {
		return err
	}
	if position > 0 {
		return f.already(ctx, env, d, r, position)
	}
	if r.Values+r.Rows == 0 {
		return fmt.Errorf("workspace %s has nothing about the %s %s; nothing was changed", f.workspace, s.Kind, s.ID)
	}
	if f.dryRun {
		return env.Print(r, r.text)
	}
	draft, err := eventlog.ForgetDraft(f.workspace, s, f.reason)
	if err != nil {
		return err
	}
	// Before the entry is appended, so that a list that cannot be kept changes nothing.
	list, err := f.openList(env, d)
	if err != nil {
		return fmt.Errorf("cannot keep who is forgotten: %w (--list names another file); nothing was changed", err)
	}
	defer func() { err = errors.Join(err, list.Close()) }()
	receipt, err := d.Log.AppendForgotten(ctx, s, draft)
	if err != nil {
		return err
	}
	entry, err := d.Log.EntryAt(ctx, f.workspace, receipt.Position)
	if err != nil {
		return err
	}
	if err := r.keep(list, entry); err != nil {
		return err
	}
	fmt.Fprintf(env.ErrOut, "the entry %s at position %d, of %s, forgets the %s %s of %s: its rows are changed, and then its values are deleted\n",
		entry.ID, entry.Position, domain.FormatTime(entry.CreatedAt), s.Kind, s.ID, f.workspace)
	return r.finish(ctx, env, d, entry)
}

// already says that an entry at a position forgets the person, and prints its receipt. It adds the line
// that an interrupted run did not write.
func (f *forgetFlags) already(ctx context.Context, env *operate.Env, d *operate.Deps, r *forgetReceipt, position int64) (err error) {
	entry, err := d.Log.EntryAt(ctx, f.workspace, position)
	if err != nil {
		return err
	}
	fmt.Fprintf(env.ErrOut, "the %s %s of %s is forgotten already, by the entry %s at position %d, of %s; nothing was appended\n",
		r.Kind, r.ID, r.WorkspaceID, entry.ID, entry.Position, domain.FormatTime(entry.CreatedAt))
	if f.dryRun {
		r.Values, r.Rows = 0, 0
		return env.Print(r, r.text)
	}
	list, err := f.openList(env, d)
	if err != nil {
		return fmt.Errorf("cannot keep who is forgotten: %w (--list names another file)", err)
	}
	defer func() { err = errors.Join(err, list.Close()) }()
	if err := r.keep(list, entry); err != nil {
		return err
	}
	return r.finish(ctx, env, d, entry)
}

// finish waits until the values are deleted, and prints the receipt.
func (r *forgetReceipt) finish(ctx context.Context, env *operate.Env, d *operate.Deps, entry *domain.Entry) error {
	r.EventID, r.Position, r.CreatedAt = entry.ID, entry.Position, domain.FormatTime(entry.CreatedAt)
	if err := d.AwaitPositions(ctx, map[string]int64{r.WorkspaceID: r.Position}, 0, service.NoProjector); err != nil {
		return err
	}
	done, err := deleted(ctx, d, r.WorkspaceID, r.Position)
	if err != nil {
		return err
	}
	r.Values, r.EndedAt, r.Remains = done.Deleted, domain.FormatTime(done.Ended.UTC().Truncate(time.Millisecond)), remains
	if err := r.sign(env); err != nil {
		return err
	}
	r.tell(env.ErrOut)
	return env.Print(r, r.text)
}

// deleted returns when the values before an entry that forgets are deleted, by this process or by
// another one.
func deleted(ctx context.Context, d *operate.Deps, workspaceID string, position int64) (*eventlog.Forgotten, error) {
	const pause = 100 * time.Millisecond
	for {
		if err := d.Log.Forget(ctx, workspaceID); err != nil {
			return nil, err
		}
		done, err := d.Log.ForgottenBy(ctx, workspaceID, position)
		if err != nil || done.Ended != nil {
			return done, err
		}
		if done.Skipped {
			return nil, fmt.Errorf("the entry at position %d is skipped, so that the rows still show the values, and no value was deleted: run this again when the projector can take such an entry", position)
		}
		if !flow.Sleep(ctx, pause) {
			return nil, context.Cause(ctx)
		}
	}
}

// openList opens the list of those who were forgotten, and makes it if there is none.
func (f *forgetFlags) openList(env *operate.Env, d *operate.Deps) (*os.File, error) {
	name := f.list
	if name == "" {
		name = env.ForgottenList(d.Database)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return nil, err
		}
	}
	return os.OpenFile(name, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
}

// keep adds an entry of the log to the list, unless the list has it.
func (r *forgetReceipt) keep(list *os.File, entry *domain.Entry) error {
	line := entry.AppendNDJSON(nil)
	lines, err := io.ReadAll(list)
	if err == nil && !bytes.Contains(lines, line) {
		if len(lines) > 0 && !bytes.HasSuffix(lines, []byte("\n")) {
			line = append([]byte("\n"), line...) // somebody edited the list
		}
		_, err = list.Write(line)
		err = errors.Join(err, list.Sync())
	}
	if err != nil {
		return fmt.Errorf("the %s %s of %s is forgotten by the entry %s, which the list %s does not have: %w; run this again, or write the list anew: ledgerfeed person list >FILE",
			r.Kind, r.ID, r.WorkspaceID, entry.ID, list.Name(), err)
	}
	r.List = list.Name()
	return nil
}

// sign makes a note of the receipt, if there is a key to sign with.
func (r *forgetReceipt) sign(env *operate.Env) error {
	keys, err := proof.ReadKeys(env)
	if keys == nil || err != nil {
		return err
	}
	host, err := signingkey.Host(env.Settings.BaseURL)
	if err != nil {
		return err
	}
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("write the receipt: %w", err)
	}
	name := host + "/erasure"
	note, err := keys.Sign(name, name+"\n"+string(text)+"\n")
	if err != nil {
		return err
	}
	r.Note = string(note)
	return nil
}

// count counts the values about a person, and the rows of the read models that show the person or
// texts about them.
func (r *forgetReceipt) count(ctx context.Context, d *operate.Deps, s eventlog.Subject) error {
	rows := `(SELECT count(*) FROM ` + s.Kind + ` WHERE workspace_id = $1 AND id = $2)`
	tables := []string{"invoice", "charge", "time_entry", "payment"}
	if s.Kind == eventlog.SubjectClient {
		tables = append(tables, "credit_move")
	}
	for _, t := range tables {
		rows += ` + (SELECT count(*) FROM ` + t + ` WHERE workspace_id = $1 AND ` + s.Kind + `_id = $2)`
	}
	err := d.Pool.QueryRow(ctx, `SELECT (SELECT count(*) FROM log_detached WHERE workspace_id = $1 AND $3 = ANY (string_to_array(subject, ' '))), `+rows,
		r.WorkspaceID, s.ID, s.String()).Scan(&r.Values, &r.Rows)
	if err != nil {
		return fmt.Errorf("count what there is of the %s %s: %w", s.Kind, s.ID, err)
	}
	return nil
}

// tell says to people how it ended.
func (r *forgetReceipt) tell(out io.Writer) {
	fmt.Fprintf(out, "%s deleted, %s changed; nothing was left in the live database at %s\nwhat remains: %s\n",
		texts.Count(r.Values, "value", "values"), texts.Count(r.Rows, "row", "rows"), r.EndedAt, r.Remains)
	if r.List != "" {
		fmt.Fprintf(out, "the list for append --forgotten: %s\n", r.List)
	}
}

// text writes the receipt alone, so that a file of it can be checked.
func (r *forgetReceipt) text(out io.Writer) (err error) {
	switch {
	case r.EventID == "":
		_, err = fmt.Fprintf(out, "would delete %s and change %s of the %s %s in %s; nothing was changed\n",
			texts.Count(r.Values, "value", "values"), texts.Count(r.Rows, "row", "rows"), r.Kind, r.ID, r.WorkspaceID)
	case r.Note != "":
		_, err = fmt.Fprint(out, r.Note)
	default:
		err = json.NewEncoder(out).Encode(r)
	}
	if err != nil {
		return fmt.Errorf("write the receipt: %w", err)
	}
	return nil
}
