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

// Oldest is the first day of which a statement can be made: the first that is within the
// retention as a whole, so that none of its events or deliveries is past it. With a
// retention of less than a day there may be none up to Newest.
func (m *Maker) Oldest() Day { return m.oldest(m.cfg.Clock()) }

func (m *Maker) oldest(now time.Time) Day { return DayOf(now.Add(-m.cfg.Retention)).Next() }

// Newest is the present day, of which more is to come.
func (m *Maker) Newest() Day { return DayOf(m.cfg.Clock()) }

// check tells whether there is a statement of a day that is made now. Error: *DayError.
func (m *Maker) check(day Day, now time.Time) error {
	today, oldest := DayOf(now), m.oldest(now)
	switch {
	case day.After(today.Time):
		return &DayError{fmt.Sprintf("%s has not begun: today is %s (UTC)", day, today)}
	case oldest.After(today.Time):
		return &DayError{fmt.Sprintf("%s is past the retention, and not all of what was sent then is known any more: the retention is %s, less than today (UTC) has lasted", day, m.cfg.Retention)}
	case day.Before(oldest.Time):
		return &DayError{fmt.Sprintf("%s is past the retention, and not all of what was sent then is known any more: the first day is %s (UTC)", day, oldest)}
	}
	return nil
}

// Make makes the statement of a webhook and a day, from one snapshot of the database.
// Memory does not grow with the day. Errors: *delivery.UnknownWebhookError, *DayError.
func (m *Maker) Make(ctx context.Context, webhookID string, day Day) (*Statement, error) {
	s := &Statement{Name: m.name, WebhookID: webhookID, Day: day}
	err := pgx.BeginTxFunc(ctx, m.cfg.Pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		r, err := begin(ctx, tx, s)
		if err != nil {
			return err
		}
		// The first query took the snapshot, so that nothing in it is later than this. The text
		// has milliseconds, and rounded down they would be earlier.
		s.Made = inMilliseconds(m.cfg.Clock())
		if err := m.check(day, s.Made.Time); err != nil {
			return err
		}
		return r.read(ctx, tx)
	})
	var unknown *delivery.UnknownWebhookError
	var wrong *DayError
	switch {
	case errors.As(err, &unknown), errors.As(err, &wrong):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("make the statement of %s for %s: %w", webhookID, day, err)
	}
	return s, nil
}

// Sign signs a statement, and returns the note.
func (m *Maker) Sign(s *Statement) ([]byte, error) { return m.cfg.Keys.Sign(m.name, s.Text()) }
