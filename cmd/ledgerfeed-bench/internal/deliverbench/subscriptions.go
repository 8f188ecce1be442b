package deliverbench

import (
	"context"
	"errors"
	"fmt"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/measure"
	"github.com/ledgerfeed/ledgerfeed/delivery"
)

// Subscriptions are webhooks whose receiver, on this machine, answers at once.
type Subscriptions struct {
	// CAFile has the certificate of the receiver's authority, and Key encrypts the
	// webhooks' secrets: what another process needs to deliver.
	CAFile, Key string

	bench      *bench
	receiver   *receiver
	removeFile func()
}

// Subscribe starts the receiver. The caller closes the Subscriptions.
func Subscribe(db *measure.Database) (*Subscriptions, error) {
	s := &Subscriptions{bench: &bench{Database: db}, receiver: newReceiver(http1), removeFile: func() {}, Key: encryptionKey}
	removeFile, err := s.bench.prepare(s.receiver)
	if removeFile != nil {
		s.removeFile = removeFile
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	s.CAFile = s.bench.settings.CAFile
	return s, nil
}

// Close stops the receiver.
func (s *Subscriptions) Close() {
	s.receiver.Close()
	s.removeFile()
}

// Add makes a webhook for all events of a workspace from now on.
func (s *Subscriptions) Add(ctx context.Context, workspaceID string) error {
	_, err := s.bench.store.Create(ctx, workspaceID, delivery.Definition{URL: s.receiver.url(), Events: []string{delivery.AllEvents}})
	return err
}

// Deliver runs a dispatcher until so many messages were answered and recorded.
func (s *Subscriptions) Deliver(ctx context.Context, messages int) error {
	_, err := s.bench.drain(ctx, s.receiver, messages)
	return err
}

// Answered is how many messages the receiver has answered.
func (s *Subscriptions) Answered() int64 { return s.receiver.answered.Load() }

// Owed counts the messages that the projected log has for webhooks and that were not
// sent.
func (s *Subscriptions) Owed(ctx context.Context) (n int, err error) {
	err = s.bench.Pool.QueryRow(ctx, `
		SELECT count(*) FROM webhook_cursor k JOIN event_log e USING (workspace_id)
		 WHERE e.position > k.position AND e.public_event IS NOT NULL`).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("cannot count the messages to send: %w", err)
	}
	if n == 0 {
		return 0, errors.New("there is nothing to deliver")
	}
	return n, nil
}
