// Package mail emails the finance team of a workspace about webhooks (docs/contract/decisions.md,
// "Mail goes out over"). Store stores a notification in the transaction of the change that it is
// about. Run sends stored notifications; any number of processes may run it.
package mail

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	netmail "net/mail"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/wneessen/go-mail"
	"golang.org/x/sync/errgroup"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/audit"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// Settings say how mail is sent.
type Settings struct {
	// URL is smtp://user:password@host:port (STARTTLS when the server offers it; with
	// ?tls=required a server that does not gets no mail) or smtps://… (TLS from the start). User and
	// port are optional. Empty: no mail is sent; log lines and the console's notices remain.
	URL string

	// From is the sender's address. Required with URL.
	From string
}

// Check reports which of the settings have the right form.
func (s Settings) Check() (urlOK, fromOK bool) {
	_, err := parseURL(s.URL)
	_, fromErr := netmail.ParseAddress(s.From)
	return s.URL == "" || err == nil, s.URL == "" && s.From == "" || fromErr == nil
}

// tlsRequired is the only parameter of a URL.
const tlsRequired = "tls=required"

func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.Scheme != "smtp" && u.Scheme != "smtps" || u.RawQuery != "" && u.RawQuery != tlsRequired {
		return nil, errors.New("the mail server is not of the form smtp://user:password@host:port, perhaps with ?tls=required, or smtps://…")
	}
	return u, nil
}

const (
	sendTimeout = 30 * time.Second
	// sendLease is how long a mail is reserved for the process that sends it. sendTimeout applies
	// to the connection, the greeting, the handshake and the mail separately.
	sendLease = 5 * sendTimeout
	// sweepInterval is how often a process looks for mails that others stored.
	sweepInterval = 15 * time.Second
	// retryInterval is the wait after a failed query.
	retryInterval = 5 * time.Second
	// firstRetry is the wait after the first failure; it doubles up to longestRetry.
	firstRetry   = time.Second
	longestRetry = 30 * time.Minute
	// giveUpAfter is the age at which a mail that could not be sent is dropped.
	giveUpAfter = 7 * 24 * time.Hour
)

// Mailer stores and sends notifications. It is safe for concurrent use.
type Mailer struct {
	pool   pg.DB
	clock  func() time.Time
	logger *slog.Logger
	from   string
	client *mail.Client // nil: no mail is sent
	stored chan struct{}
}

// New returns a Mailer. The error is about the settings.
func New(s Settings, pool pg.DB, clock func() time.Time, logger *slog.Logger) (*Mailer, error) {
	m := &Mailer{pool: pool, clock: clock, logger: logger, from: s.From, stored: make(chan struct{}, 1)}
	if s.URL == "" {
		return m, nil
	}
	if _, ok := s.Check(); !ok {
		return nil, errors.New("the sender of mails is not a mail address")
	}
	u, err := parseURL(s.URL)
	if err != nil {
		return nil, err
	}
	policy := mail.TLSOpportunistic
	if u.RawQuery == tlsRequired {
		policy = mail.TLSMandatory
	}
	options := []mail.Option{mail.WithTimeout(sendTimeout), mail.WithTLSPolicy(policy)}
	if u.Scheme == "smtps" {
		options = append(options, mail.WithSSL(), mail.WithPort(mail.DefaultPortSSL))
	}
	if port, err := strconv.Atoi(u.Port()); err == nil {
		options = append(options, mail.WithPort(port))
	}
	if password, ok := u.User.Password(); ok {
		options = append(options, mail.WithSMTPAuth(mail.SMTPAuthAutoDiscover), mail.WithUsername(u.User.Username()), mail.WithPassword(password))
	}
	if m.client, err = mail.NewClient(u.Hostname(), options...); err != nil {
		return nil, fmt.Errorf("cannot use the mail server: %w", err)
	}
	return m, nil
}

// Notification is a mail without its recipients: each address of the workspace's
// notify_email gets one.
type Notification struct {
	ID          string // the same for the same notification, so that it is stored once
	WorkspaceID string
	WebhookID   string // empty: a test mail
	Subject     string
	Body        string
}

// Store is Queue in a transaction.
func (m *Mailer) Store(ctx context.Context, tx pgx.Tx, n *Notification) error {
	b := &pgx.Batch{}
	if m.Queue(b, n); b.Len() == 0 {
		return nil
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("store a mail about webhook %s: %w", n.WebhookID, err)
	}
	return nil
}

// Queue stores a mail for each address of the workspace, in the transaction of the change that the
// notification is about. It does nothing if no mail is sent or the workspace has no address. Call
// SendSoon after the commit.
func (m *Mailer) Queue(b *pgx.Batch, n *Notification) {
	if m.client == nil {
		return
	}
	b.Queue(`
		WITH mails AS MATERIALIZED (
		    SELECT w.workspace_id, $2 || CASE WHEN t.n = 1 THEN '' ELSE '_' || t.n END, $3, $4, $5, $6::timestamptz, $6::timestamptz, t.address
		      FROM workspace w, unnest(string_to_array(w.notify_email, ', ')) WITH ORDINALITY AS t (address, n)
		     WHERE w.workspace_id = $1 AND t.address <> '')
		INSERT INTO webhook_mail (workspace_id, mail_id, webhook_id, subject, body, created_at, next_attempt_at, recipient)
		SELECT * FROM mails
		    ON CONFLICT DO NOTHING`,
		n.WorkspaceID, n.ID, n.WebhookID, n.Subject, n.Body, m.clock())
}

// SendSoon wakes Run, so that it does not wait for its next sweep.
func (m *Mailer) SendSoon() {
	select {
	case m.stored <- struct{}{}:
	default: // Run is about to look already
	}
}

// Run sends stored mails until ctx ends. Without a mail server, it keeps mails that were stored
// when there was one.
func (m *Mailer) Run(ctx context.Context) {
	look := m.sendDue
	if m.client == nil {
		look = m.keepUnsent
	}
	outage := flow.Outage{Logger: m.logger, Failing: "cannot look for mails to send; trying again until it works", Working: "the search for mails to send works again"}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.stored:
		case <-timer.C:
		}
		next, err := retryInterval, eventlog.CheckClock(ctx, m.pool, m.clock())
		if err == nil { // a wrong clock would drop mails, or send those again that another process sends
			next, err = look(ctx)
		}
		if ctx.Err() == nil {
			outage.LogTransition(ctx, err)
		}
		timer.Reset(next)
	}
}

// keepUnsent clears the error of overdue mails that no process tries to send: they wait for a mail
// server, which is not a failure to report. It drops mails that are more than a week old, as
// sending does. It returns when to look again.
func (m *Mailer) keepUnsent(ctx context.Context) (next time.Duration, err error) {
	now := m.clock()
	untried := now.Add(-sendLease)
	if _, err := m.pool.Exec(ctx, `UPDATE webhook_mail SET error = NULL WHERE error IS NOT NULL AND next_attempt_at < $1`, untried); err != nil {
		return retryInterval, fmt.Errorf("keep mails that nobody sends: %w", err)
	}
	dropped, err := m.pool.Exec(ctx, `DELETE FROM webhook_mail WHERE created_at < $1 AND next_attempt_at < $2`, now.Add(-giveUpAfter), untried)
	if err != nil {
		return retryInterval, fmt.Errorf("drop mails that nobody sends: %w", err)
	}
	if n := dropped.RowsAffected(); n > 0 {
		m.logger.ErrorContext(ctx, "dropped mails that had waited for a week, because LEDGERFEED_SMTP_URL is not set", "mails", n)
	}
	return sweepInterval, nil
}

// dueMail is a mail to send now.
type dueMail struct {
	Notification
	to        string
	createdAt time.Time
	attempts  int
}

// sendDue sends the mails that are due and returns when to look again. It claims a mail by moving
// its next_attempt_at ahead, so no transaction is open while a mail server is slow. It sends all
// claimed mails at the same time, so that a slow mail does not delay the others and each is sent
// before its claim ends.
func (m *Mailer) sendDue(ctx context.Context) (next time.Duration, err error) {
	list, err := m.claimDue(ctx)
	if err != nil {
		return retryInterval, fmt.Errorf("claim mails: %w", err)
	}
	var group errgroup.Group
	for i := range list {
		group.Go(func() error { return m.sendOne(ctx, &list[i]) })
	}
	if err := group.Wait(); err != nil {
		return retryInterval, err
	}
	var at *time.Time
	if err := m.pool.QueryRow(ctx, `SELECT min(next_attempt_at) FROM webhook_mail`).Scan(&at); err != nil {
		return retryInterval, fmt.Errorf("look for the next mail: %w", err)
	}
	if at == nil {
		return sweepInterval, nil
	}
	return min(max(at.Sub(m.clock()), time.Millisecond), sweepInterval), nil
}

// claimedAtOnce is how many mails a process sends at once. It is small, because mail servers limit
// their connections.
const claimedAtOnce = 5

// dueAt identifies a mail by its due time and its key.
type dueAt struct {
	At              time.Time
	WorkspaceID, ID string
}

// claimDue claims mails that are due. It looks for them without a lock, and claims each with a
// statement of its own, which succeeds only if the mail is still due and no other transaction has
// locked its row. If it could claim none, it looks for the next ones.
func (m *Mailer) claimDue(ctx context.Context) (list []dueMail, err error) {
	now := m.clock()
	for after, more := (dueAt{}), true; more && len(list) == 0; {
		due, err := pg.Collect(ctx, m.pool, pgx.RowToStructByPos[dueAt], `
			SELECT next_attempt_at, workspace_id, mail_id FROM webhook_mail
			 WHERE next_attempt_at <= $1 AND (next_attempt_at, workspace_id, mail_id) > ($2, $3, $4)
			 ORDER BY next_attempt_at, workspace_id, mail_id LIMIT $5`, now, after.At, after.WorkspaceID, after.ID, claimedAtOnce)
		if err != nil {
			return nil, fmt.Errorf("look for mails that are due: %w", err)
		}
		if list, err = m.claim(ctx, due, now); err != nil {
			return nil, err
		}
		if more = len(due) == claimedAtOnce; more {
			after = due[len(due)-1]
		}
	}
	return list, nil
}

func (m *Mailer) claim(ctx context.Context, due []dueAt, now time.Time) (list []dueMail, err error) {
	var claims pgx.Batch
	for _, one := range due {
		claims.Queue(`
			UPDATE webhook_mail l SET next_attempt_at = $4, attempts = l.attempts + 1
			  FROM workspace w
			 WHERE l.workspace_id = $1 AND w.workspace_id = $1 AND l.mail_id IN (
			       SELECT mail_id FROM webhook_mail WHERE workspace_id = $1 AND mail_id = $2 AND next_attempt_at <= $3 FOR UPDATE SKIP LOCKED)
			RETURNING l.workspace_id, l.mail_id, l.webhook_id, coalesce(CASE WHEN l.recipient IS NULL THEN w.notify_email
			          WHEN l.recipient = ANY (string_to_array(w.notify_email, ', ')) THEN l.recipient END, ''), l.subject, l.body, l.created_at, l.attempts`,
			one.WorkspaceID, one.ID, now, now.Add(sendLease)).Query(func(rows pgx.Rows) error {
			claimed, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (d dueMail, err error) {
				err = row.Scan(&d.WorkspaceID, &d.ID, &d.WebhookID, &d.to, &d.Subject, &d.Body, &d.createdAt, &d.attempts)
				return d, err
			})
			list = append(list, claimed...)
			return err
		})
	}
	return list, m.pool.SendBatch(ctx, &claims).Close()
}

// sendOne sends a mail and deletes it, or puts it off. Only database errors are returned.
func (m *Mailer) sendOne(ctx context.Context, d *dueMail) error {
	failure := d.withoutRecipient(m.send(ctx, d))
	if failure != nil && ctx.Err() != nil {
		return ctx.Err() // the process is stopping; the mail is due again when its lease ends
	}
	log := m.logger.With("workspace", d.WorkspaceID, "webhook", d.WebhookID, "mail", d.ID, "subject", d.Subject)
	wait := min(firstRetry<<min(d.attempts-1, 20), longestRetry)
	switch {
	case failure == nil:
		log.InfoContext(ctx, "sent a mail")
	case d.WebhookID == "" && m.clock().Sub(d.createdAt) > testWindow:
		log.WarnContext(ctx, "dropped a test mail after trying for an hour", "error", failure)
	case m.clock().Sub(d.createdAt) > giveUpAfter:
		log.ErrorContext(ctx, "dropped a mail after trying for a week", "error", failure)
	default:
		log.WarnContext(ctx, "cannot send a mail; trying again", "error", failure, "attempts", d.attempts, "retry_in", wait)
		_, err := m.pool.Exec(ctx, `
			UPDATE webhook_mail SET next_attempt_at = $3, error = $4 WHERE workspace_id = $1 AND mail_id = $2`,
			d.WorkspaceID, d.ID, m.clock().Add(wait), failure.Error())
		if err != nil {
			return fmt.Errorf("put off mail %s: %w", d.ID, err)
		}
		return nil
	}
	if _, err := m.pool.Exec(ctx, `DELETE FROM webhook_mail WHERE workspace_id = $1 AND mail_id = $2`, d.WorkspaceID, d.ID); err != nil {
		return fmt.Errorf("delete mail %s: %w", d.ID, err)
	}
	return nil
}

// withoutRecipient removes the recipient's address from an error before it is logged and stored:
// the address is personal data, and the workspace's row has it.
func (d *dueMail) withoutRecipient(err error) error {
	if err == nil || d.to == "" || !strings.Contains(err.Error(), d.to) {
		return err
	}
	return errors.New(strings.ReplaceAll(err.Error(), d.to, "(the recipient)"))
}

func (m *Mailer) send(ctx context.Context, d *dueMail) error {
	if d.to == "" {
		return nil // the workspace's address was removed after the mail was stored
	}
	msg := mail.NewMsg()
	if err := msg.From(m.from); err != nil {
		return fmt.Errorf("sender: %w", err)
	}
	if err := msg.To(strings.Split(d.to, ", ")...); err != nil {
		return fmt.Errorf("recipient: %w", err)
	}
	msg.Subject(d.Subject)
	// If the server's answer is lost, the mail is sent again; the message id lets
	// mail programs show it once.
	msg.SetMessageIDWithValue(d.ID + "@ledgerfeed")
	msg.SetDateWithValue(d.createdAt)
	msg.SetGenHeader("Auto-Submitted", "auto-generated")
	msg.SetBodyString(mail.TypeTextPlain, d.Body)
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	if err := m.client.DialAndSendWithContext(ctx, msg); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return nil
}

// Test mails are limited per workspace, so that nobody sends mail to others with them. A test mail
// that cannot be sent within the window is dropped: all workspaces share the few mails that are
// sent at once, and a week of tests to addresses that refuse them would hold up the rest.
const (
	maxTests   = 5
	testWindow = time.Hour
)

// Errors of Test.
var (
	ErrNoServer = errors.New("this service sends no mail: its operator has set no mail server")
	ErrNobody   = errors.New("the workspace has no address")
	ErrTests    = fmt.Errorf("%d test mails were sent within an hour: try again later", maxTests)
)

// Enabled reports whether there is a mail server.
func (m *Mailer) Enabled() bool { return m.client != nil }

// Test stores a test mail for each address of a workspace, and adds a line to the audit trail.
// Errors: ErrNoServer, ErrNobody, ErrTests.
func (m *Mailer) Test(ctx context.Context, workspaceID string) error {
	if !m.Enabled() {
		return ErrNoServer
	}
	now := m.clock()
	err := pg.InTx(ctx, m.pool, func(tx pgx.Tx) error {
		// The lock makes test mails of a workspace wait for each other, so that each is counted.
		var to string
		err := tx.QueryRow(ctx, `SELECT coalesce(notify_email, '') FROM workspace WHERE workspace_id = $1 FOR NO KEY UPDATE`, workspaceID).Scan(&to)
		if err != nil {
			return fmt.Errorf("lock workspace %s: %w", workspaceID, err)
		}
		if to == "" {
			return ErrNobody
		}
		var tests int
		err = tx.QueryRow(ctx, `SELECT count(*) FROM console_audit WHERE workspace_id = $1 AND at > $2 AND action = $3`,
			workspaceID, now.Add(-testWindow), string(audit.WorkspaceTestMail)).Scan(&tests)
		if err != nil {
			return fmt.Errorf("count the test mails of %s: %w", workspaceID, err)
		}
		if tests >= maxTests {
			return ErrTests
		}
		err = m.Store(ctx, tx, &Notification{
			ID: "mail_" + uuid.NewString(), WorkspaceID: workspaceID, Subject: "Test mail",
			Body: "This is a test. Mail about failing webhooks of the workspace " + workspaceID + " comes to this address.\n",
		})
		if err != nil {
			return err
		}
		return audit.Add(ctx, tx, now, audit.Change{WorkspaceID: workspaceID, Action: audit.WorkspaceTestMail, ObjectID: workspaceID, Detail: "to " + to})
	})
	if err == nil {
		m.SendSoon()
	}
	return err
}
