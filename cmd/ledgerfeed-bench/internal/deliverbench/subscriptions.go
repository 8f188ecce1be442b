package deliverbench

import (
	"context"

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
