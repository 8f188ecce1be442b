package mail

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/internal/audit"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

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
