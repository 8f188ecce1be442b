package statement

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/delivery"
	"github.com/ledgerfeed/ledgerfeed/internal/signingkey"
)

// Config configures a Maker. All fields are required.
type Config struct {
	Pool      *pgxpool.Pool
	Keys      *signingkey.Keys
	BaseURL   string // the API's address, whose host is part of the name of the key
	Clock     func() time.Time
	Retention time.Duration // deliveries that are older than this are not there any more
}

// Maker makes statements. Any number of goroutines may call its methods.
type Maker struct {
	cfg  Config
	name string
}

// New returns a Maker. The error says what is wrong with cfg.
func New(cfg Config) (*Maker, error) {
	if cfg.Pool == nil || cfg.Keys == nil || cfg.Clock == nil || cfg.Retention <= 0 {
		return nil, errors.New("statement: Config needs everything")
	}
	name, err := signingkey.StatementName(cfg.BaseURL)
	if err != nil {
		return nil, err
	}
	return &Maker{cfg, name}, nil
}

// Verifiers are the verifier keys that statements are checked with, the present one first.
func (m *Maker) Verifiers() ([]string, error) { return m.cfg.Keys.Verifiers(m.name) }

// Oldest is the first day of which a statement can be made: those before are past the
// retention. Newest is the present day, of which more is to come.
func (m *Maker) Oldest() Day { return DayOf(m.cfg.Clock().Add(-m.cfg.Retention)) }

// Newest is today.
func (m *Maker) Newest() Day { return DayOf(m.cfg.Clock()) }

// Make makes the statement of a webhook and a day, from one snapshot of the database.
// Memory does not grow with the day. Errors: *delivery.UnknownWebhookError, *DayError.
func (m *Maker) Make(ctx context.Context, webhookID string, day Day) (*Statement, error) {
	switch {
	case day.After(m.Newest().Time):
		return nil, &DayError{fmt.Sprintf("%s has not begun: today is %s (UTC)", day, m.Newest())}
	case day.Before(m.Oldest().Time):
		return nil, &DayError{fmt.Sprintf("%s is past the retention, and what was sent then is not known any more: the first day is %s (UTC)", day, m.Oldest())}
	}
	s := &Statement{Name: m.name, WebhookID: webhookID, Day: day, Made: Time{m.cfg.Clock().UTC().Truncate(time.Millisecond)}}
	err := pgx.BeginTxFunc(ctx, m.cfg.Pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		r, err := begin(ctx, tx, s)
		if err != nil {
			return err
		}
		return r.read(ctx, tx)
	})
	var unknown *delivery.UnknownWebhookError
	if err != nil && !errors.As(err, &unknown) {
		return nil, fmt.Errorf("make the statement of %s for %s: %w", webhookID, day, err)
	}
	return s, err
}

// Sign signs a statement, and returns the note.
func (m *Maker) Sign(s *Statement) ([]byte, error) { return m.cfg.Keys.Sign(m.name, s.Text()) }
