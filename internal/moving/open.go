package moving

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/delivery/keyring"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
	"github.com/ledgerfeed/ledgerfeed/readapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// open opens the workspace at the new place. One transaction there also copies everything that
// decides who may read it and what is sent. The old place has given the workspace up, so none of
// that changes there.
func (m *Mover) open(ctx context.Context) (result Result, err error) {
	m.cfg.Step(StepOpen)
	cursorKey, err := readapi.SharedCursorKey(ctx, m.cfg.From.Pool)
	if err != nil {
		return result, err
	}
	err = m.cfg.To.inTx(ctx, func(to pgx.Tx) error {
		r, err := m.lockRow(ctx, to)
		if err != nil {
			return err
		}
		switch {
		case m.is(r, open, complete):
			return readResult(ctx, m, to, &result)
		case !m.is(r, ready):
			return ErrUndone
		}
		err = pgx.BeginTxFunc(ctx, m.cfg.From.Pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(from pgx.Tx) error {
			return openWith(ctx, m, from, to, readapi.WorkspaceCursorKey(cursorKey, m.cfg.WorkspaceID))
		})
		if err != nil {
			return err
		}
		if err := readResult(ctx, m, to, &result); err != nil {
			return err
		}
		return access.BumpRevision(ctx, to, m.cfg.WorkspaceID)
	})
	if err != nil {
		return result, err
	}
	m.cfg.To.notify(eventlog.TopicAppended, m.cfg.WorkspaceID)
	m.cfg.To.notify(eventlog.TopicProjected, m.cfg.WorkspaceID)
	return result, nil
}

func readResult(ctx context.Context, m *Mover, tx pgx.Tx, result *Result) error {
	var chain []byte
	err := tx.QueryRow(ctx, `
		SELECT state, position, chain, coalesce(opened_after, '0') FROM workspace_move WHERE workspace_id = $1`, m.cfg.WorkspaceID).
		Scan(&result.State, &result.Position, &chain, &result.Refused)
	if err != nil {
		return fmt.Errorf("read how %s has moved: %w", m.cfg.WorkspaceID, err)
	}
	copy(result.Chain[:], chain)
	return nil
}

// openWith opens the new place in transaction to, with the old place's data read in from.
func openWith(ctx context.Context, m *Mover, from, to pgx.Tx, cursorKey []byte) error {
	r := &row{}
	var before []byte
	err := from.QueryRow(ctx, `
		SELECT move_id::text, state, position, chain, held FROM workspace_move WHERE workspace_id = $1`, m.cfg.WorkspaceID).
		Scan(&r.id, &r.state, &r.position, &r.chain, &before)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("read how far the move of %s is: %w", m.cfg.WorkspaceID, err)
	}
	if !m.is(r, moved) {
		return ErrUndone
	}
	h := head{r.position, r.chain}
	if err := lockSameHead(ctx, m, to, h); err != nil {
		return err
	}
	if err := copyWorkspace(ctx, m, from, to); err != nil {
		return err
	}
	for _, t := range opening() {
		if err := copyAll(ctx, m, from, to, &t); err != nil {
			return err
		}
	}
	if err := adapt(ctx, m, to, before); err != nil {
		return err
	}
	if _, err := to.Exec(ctx, `INSERT INTO cursor_key (workspace_id, value, since) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`,
		m.cfg.WorkspaceID, cursorKey, m.now()); err != nil {
		return fmt.Errorf("keep the key of cursors of %s: %w", m.cfg.WorkspaceID, err)
	}
	var refused time.Duration
	if err := from.QueryRow(ctx, `SELECT clock_timestamp() - fenced_at FROM workspace_move WHERE workspace_id = $1`, m.cfg.WorkspaceID).Scan(&refused); err != nil {
		return fmt.Errorf("read when %s was fenced: %w", m.cfg.WorkspaceID, err)
	}
	if _, err := to.Exec(ctx, `
		UPDATE workspace_move SET state = 'open', changed_at = $2, opened_after = $3, position = $4, chain = $5 WHERE workspace_id = $1`,
		m.cfg.WorkspaceID, m.now(), refused, h.position, h.chain); err != nil {
		return fmt.Errorf("note that %s is open: %w", m.cfg.WorkspaceID, err)
	}
	return m.audit(ctx, to, fmt.Sprintf("came from %s with %s", m.cfg.From.Name, texts.Count(h.position, "entry", "entries")))
}

// copyWorkspace copies the workspace's own settings to the new place, and removes the keys that an
// earlier stay there has left.
func copyWorkspace(ctx context.Context, m *Mover, from, to pgx.Tx) error {
	var (
		name    string
		email   *string
		created time.Time
	)
	if err := from.QueryRow(ctx, `SELECT name, notify_email, created_at FROM workspace WHERE workspace_id = $1`, m.cfg.WorkspaceID).Scan(&name, &email, &created); err != nil {
		return fmt.Errorf("read the workspace %s: %w", m.cfg.WorkspaceID, err)
	}
	// A reader who was refused here has used a key, and that use is written some time later. So
	// lock the keys before removing them.
	if err := m.exec(ctx, to, `SELECT 1 FROM workspace WHERE workspace_id = $1 FOR UPDATE`,
		`SELECT 1 FROM api_key WHERE workspace_id = $1 ORDER BY key_id FOR UPDATE`, `DELETE FROM api_key_use WHERE workspace_id = $1`,
		`DELETE FROM api_key_secret WHERE workspace_id = $1`, `DELETE FROM api_key WHERE workspace_id = $1`,
		`DELETE FROM producer_secret WHERE workspace_id = $1`, `DELETE FROM producer WHERE workspace_id = $1`); err != nil {
		return err
	}
	_, err := to.Exec(ctx, `UPDATE workspace SET name = $2, notify_email = $3, created_at = $4 WHERE workspace_id = $1`, m.cfg.WorkspaceID, name, email, created)
	if err != nil {
		return fmt.Errorf("write the workspace %s: %w", m.cfg.WorkspaceID, err)
	}
	return nil
}

// adapt changes the copied rows that cannot stay as they were at the old place.
func adapt(ctx context.Context, m *Mover, to pgx.Tx, before []byte) error {
	err := m.exec(ctx, to,
		`UPDATE api_key SET revision = 0 WHERE workspace_id = $1`, // a number from the old place
		`UPDATE rate_count SET changed_at = statement_timestamp() WHERE workspace_id = $1`,
		`UPDATE webhook_cursor SET holder = NULL WHERE workspace_id = $1`,
		`UPDATE webhook_mail SET next_attempt_at = now() WHERE workspace_id = $1 AND next_attempt_at = 'infinity'`,
		// A session also shows other workspaces of the old place. Here they may belong to other
		// people.
		`UPDATE console_session SET grants = (SELECT coalesce(jsonb_agg(g), '[]') FROM jsonb_array_elements(grants) AS g WHERE g ->> 'workspace' = $1) WHERE workspace_id = $1`,
		`UPDATE log_head SET closed_until = NULL WHERE workspace_id = $1`,
		`UPDATE workspace SET move = NULL, moved_to = NULL WHERE workspace_id = $1`)
	if err != nil {
		return err
	}
	if err := letGo(ctx, m, to, before); err != nil {
		return err
	}
	return reseal(ctx, m, to)
}

// reseal seals the webhooks' secrets with the new place's key.
func reseal(ctx context.Context, m *Mover, to pgx.Tx) error {
	type sealed struct {
		ID          string
		Secret, Old []byte
		Older       [][]byte
		OlderUntil  []time.Time
	}
	list, err := pg.Collect(ctx, to, pgx.RowToStructByPos[sealed], `
		SELECT webhook_id, secret, old_secret, older_secrets, older_secrets_until FROM webhook WHERE workspace_id = $1 ORDER BY webhook_id`, m.cfg.WorkspaceID)
	if err != nil {
		return fmt.Errorf("read the secrets of %s: %w", m.cfg.WorkspaceID, err)
	}
	if len(list) == 0 {
		return nil
	}
	if m.cfg.From.Keyring == nil || m.cfg.To.Keyring == nil {
		return errNoKeyring
	}
	under, err := keyring.Sealing(ctx, to, m.cfg.To.Keyring, m.now())
	if err != nil {
		return fmt.Errorf("the new place: %w", err)
	}
	for _, w := range list {
		secret, err := again(m, under, w.ID, w.Secret)
		if err != nil {
			return err
		}
		// An old secret that nobody can open signs nothing, and expires anyway.
		old, err := againIfKnown(m, under, w.ID, w.Old)
		if err != nil {
			return err
		}
		older, olderUntil := [][]byte{}, []time.Time{}
		for i, box := range w.Older {
			if box, err = againIfKnown(m, under, w.ID, box); err != nil {
				return err
			}
			if box != nil {
				older, olderUntil = append(older, box), append(olderUntil, w.OlderUntil[i])
			}
		}
		_, err = to.Exec(ctx, `
			UPDATE webhook SET secret = $3, old_secret = $4, old_secret_until = CASE WHEN $4::bytea IS NULL THEN NULL ELSE old_secret_until END,
			       older_secrets = $5, older_secrets_until = $6
			 WHERE workspace_id = $1 AND webhook_id = $2`, m.cfg.WorkspaceID, w.ID, secret, old, older, olderUntil)
		if err != nil {
			return fmt.Errorf("write the secret of %s: %w", w.ID, err)
		}
	}
	return nil
}

var errNoKeyring = errors.New("the workspace has webhooks, whose secrets are encrypted: the keys of both places are needed (LEDGERFEED_SECRET_KEY and --to-secret-key-file)")

// againIfKnown is again, but returns nil if there is no secret or this process lacks its key.
func againIfKnown(m *Mover, under *keyring.Keyring, webhookID string, box []byte) ([]byte, error) {
	if box == nil {
		return nil, nil
	}
	sealed, err := again(m, under, webhookID, box)
	if errors.Is(err, keyring.ErrUnknownKey) {
		return nil, nil
	}
	return sealed, err
}

// again seals a secret of the old place with another keyring.
func again(m *Mover, under *keyring.Keyring, webhookID string, box []byte) ([]byte, error) {
	secret, err := m.cfg.From.Keyring.Open(m.cfg.WorkspaceID, webhookID, box)
	if err != nil {
		return nil, fmt.Errorf("open the secret of %s: %w", webhookID, err)
	}
	return under.Seal(m.cfg.WorkspaceID, webhookID, secret), nil
}
