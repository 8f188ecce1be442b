package delivery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	netmail "net/mail"
	"net/url"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/wneessen/go-mail"
)

// MailSettings say how mail goes out.
type MailSettings struct {
	// URL is smtp://user:password@host:port (STARTTLS when the server offers
	// it) or smtps://… (TLS from the start); user and port may be left out.
	// Empty: no mail is sent; a log line and the notice stand alone.
	URL string `env:"LEDGERFEED_SMTP_URL"`

	// From is the sender's address. Required with URL.
	From string `env:"LEDGERFEED_MAIL_FROM"`
}

const (
	mailTimeout = 30 * time.Second
	// mailLease is how long nobody else tries a mail that somebody sends.
	mailLease = 2 * mailTimeout
	// mailSweep is how often mails are looked for that were put down elsewhere.
	mailSweep = 15 * time.Second
	// mailRetry is the first wait after a failure; it doubles up to mailRetryMax.
	mailRetry    = time.Second
	mailRetryMax = 30 * time.Minute
	// mailGiveUp is the age at which a mail that was never taken is dropped.
	mailGiveUp = 7 * 24 * time.Hour
)

// mailer sends what webhook_mail holds.
type mailer struct {
	pool   *pgxpool.Pool
	clock  func() time.Time
	logger *slog.Logger
	from   string
	client *mail.Client // nil: no mail
	kicked chan struct{}
}

func newMailer(s MailSettings, pool *pgxpool.Pool, clock func() time.Time, logger *slog.Logger) (*mailer, error) {
	m := &mailer{pool: pool, clock: clock, logger: logger, from: s.From, kicked: make(chan struct{}, 1)}
	if s.URL == "" {
		return m, nil
	}
	u, err := url.Parse(s.URL)
	if err != nil || u.Hostname() == "" || u.Scheme != "smtp" && u.Scheme != "smtps" {
		return nil, errors.New("LEDGERFEED_SMTP_URL is not of the form smtp://user:password@host:port or smtps://…")
	}
	if _, err := netmail.ParseAddress(s.From); err != nil {
		return nil, fmt.Errorf("LEDGERFEED_MAIL_FROM: %w", err)
	}
	options := []mail.Option{mail.WithTimeout(mailTimeout), mail.WithTLSPolicy(mail.TLSOpportunistic)}
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
		return nil, fmt.Errorf("LEDGERFEED_SMTP_URL: %w", err)
	}
	return m, nil
}

// enqueue puts a letter down to be sent, in the transaction of what it is
// about. Without an SMTP address or an addressee it does nothing.
func (m *mailer) enqueue(ctx context.Context, tx pgx.Tx, k key, l letter) error {
	if m.client == nil {
		return nil
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO webhook_mail (workspace_id, mail_id, webhook_id, subject, body, created_at, next_attempt_at)
		SELECT workspace_id, $2, $3, $4, $5, $6, $6 FROM workspace WHERE workspace_id = $1 AND notify_email <> ''
		    ON CONFLICT DO NOTHING`,
		k.workspaceID, l.id, k.webhookID, l.subject, l.body, m.clock())
	if err != nil {
		return fmt.Errorf("put a mail about %s down: %w", k.webhookID, err)
	}
	return nil
}

func (m *mailer) kick() { nudge(m.kicked) }

// run sends mails until ctx ends.
func (m *mailer) run(ctx context.Context) {
	if m.client == nil {
		return
	}
	wait := time.NewTimer(0)
	defer wait.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.kicked:
		case <-wait.C:
		}
		next, err := m.sendDue(ctx)
		if err != nil && ctx.Err() == nil {
			m.logger.WarnContext(ctx, "mails could not be looked for; it is done again", "error", err)
		}
		wait.Reset(next)
	}
}

// due is a mail to be sent now.
type dueMail struct {
	workspaceID, id, webhookID, to string
	letter                         letter
	createdAt                      time.Time
	attempts                       int
}

// sendDue sends what is due and returns in how long to look again. The lease
// is in the row: no transaction is open while a server is slow.
func (m *mailer) sendDue(ctx context.Context) (next time.Duration, err error) {
	now := m.clock()
	rows, err := m.pool.Query(ctx, `
		UPDATE webhook_mail l SET next_attempt_at = $2, attempts = l.attempts + 1
		  FROM workspace w
		 WHERE (l.workspace_id, l.mail_id) IN (
		       SELECT workspace_id, mail_id FROM webhook_mail WHERE next_attempt_at <= $1
		        ORDER BY next_attempt_at LIMIT 20 FOR UPDATE SKIP LOCKED)
		   AND w.workspace_id = l.workspace_id
		RETURNING l.workspace_id, l.mail_id, l.webhook_id, coalesce(w.notify_email, ''), l.subject, l.body, l.created_at, l.attempts`,
		now, now.Add(mailLease))
	if err != nil {
		return mailSweep, fmt.Errorf("look for mails: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (d dueMail, err error) {
		err = row.Scan(&d.workspaceID, &d.id, &d.webhookID, &d.to, &d.letter.subject, &d.letter.body, &d.createdAt, &d.attempts)
		return d, err
	})
	if err != nil {
		return mailSweep, fmt.Errorf("look for mails: %w", err)
	}
	for i := range list {
		if err := m.sendOne(ctx, &list[i]); err != nil {
			return mailSweep, err
		}
	}
	var at *time.Time
	if err := m.pool.QueryRow(ctx, `SELECT min(next_attempt_at) FROM webhook_mail`).Scan(&at); err != nil {
		return mailSweep, fmt.Errorf("look for the next mail: %w", err)
	}
	if at == nil {
		return mailSweep, nil
	}
	return min(max(at.Sub(m.clock()), time.Millisecond), mailSweep), nil
}

func (m *mailer) sendOne(ctx context.Context, d *dueMail) error {
	failure := m.send(ctx, d)
	if ctx.Err() != nil {
		return nil //nolint:nilerr // stopping; it is tried again when its lease is over
	}
	log := m.logger.With("workspace", d.workspaceID, "webhook", d.webhookID, "mail", d.id, "subject", d.letter.subject)
	wait := min(mailRetry<<min(d.attempts-1, 20), mailRetryMax)
	switch {
	case failure == nil:
		log.InfoContext(ctx, "a mail was sent")
	case m.clock().Sub(d.createdAt) > mailGiveUp:
		log.ErrorContext(ctx, "a mail could not be sent for a week and is dropped", "error", failure)
	default:
		log.WarnContext(ctx, "a mail could not be sent; it is tried again", "error", failure, "attempts", d.attempts, "retry_in", wait)
		_, err := m.pool.Exec(ctx, `
			UPDATE webhook_mail SET next_attempt_at = $3, error = $4 WHERE workspace_id = $1 AND mail_id = $2`,
			d.workspaceID, d.id, m.clock().Add(wait), failure.Error())
		if err != nil {
			return fmt.Errorf("put mail %s off: %w", d.id, err)
		}
		return nil
	}
	if _, err := m.pool.Exec(ctx, `DELETE FROM webhook_mail WHERE workspace_id = $1 AND mail_id = $2`, d.workspaceID, d.id); err != nil {
		return fmt.Errorf("forget mail %s: %w", d.id, err)
	}
	return nil
}

func (m *mailer) send(ctx context.Context, d *dueMail) error {
	if d.to == "" {
		return nil // the addressee was taken away meanwhile
	}
	msg := mail.NewMsg()
	if err := msg.From(m.from); err != nil {
		return fmt.Errorf("sender: %w", err)
	}
	if err := msg.To(d.to); err != nil {
		return fmt.Errorf("addressee: %w", err)
	}
	msg.Subject(d.letter.subject)
	// A mail that is sent twice, because the answer to the first was lost, can
	// be told from its id.
	msg.SetMessageIDWithValue(d.id + "@ledgerfeed")
	msg.SetDateWithValue(d.createdAt)
	msg.SetGenHeader("Auto-Submitted", "auto-generated")
	msg.SetBodyString(mail.TypeTextPlain, d.letter.body)
	ctx, cancel := context.WithTimeout(ctx, mailTimeout)
	defer cancel()
	if err := m.client.DialAndSendWithContext(ctx, msg); err != nil {
		return fmt.Errorf("send a mail: %w", err)
	}
	return nil
}
