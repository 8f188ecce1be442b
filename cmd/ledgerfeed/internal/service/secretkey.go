package service

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery/keyring"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// secretKeyInterval is how often a process looks whether its keys still fit the
// database: a rotation elsewhere, or a restored backup, may need others.
const secretKeyInterval = 30 * time.Second

// needsSecretKey tells whether a role opens or makes webhooks' secrets.
func needsSecretKey(role string) bool { return role == RoleDeliver || role == RoleConsole }

// prepareSecretKeys gets the keys for webhooks' secrets, which the roles share. Keys
// that do not fit the database are no error: the roles that need them are refused.
func (s *Service) prepareSecretKeys(ctx context.Context) error {
	if s.keysAsked {
		return nil
	}
	s.keysAsked = true
	k, err := s.env.Keyring(ctx, s.database, s.shared)
	if errors.As(err, &s.refused) {
		s.setUnready("refusing the roles that need the keys for webhooks' secrets: " + s.refused.Error())
		err = nil
	}
	if s.keyring = k; k != nil {
		s.Add("secret keys", s.watchSecretKeys)
	}
	return err
}

// setUnready makes /readyz say "not ready", of the process and of the roles that need keys,
// for a reason; an empty one takes it back.
func (s *Service) setUnready(reason string) { s.unready.Store(&reason) }

// watchSecretKeys looks from time to time whether the keys still fit.
func (s *Service) watchSecretKeys(ctx context.Context) error {
	for fit := true; flow.Sleep(ctx, secretKeyInterval); {
		var state *keyring.State
		err := pg.Within(ctx, secretKeyInterval, func(ctx context.Context) (err error) {
			state, err = keyring.ReadState(ctx, s.shared, s.env.Clock())
			return err
		})
		if err != nil {
			continue // the database is away, which /readyz notices by itself
		}
		err = state.Check(s.keyring)
		switch {
		case err != nil && fit:
			s.setUnready(err.Error())
			s.env.Logger.ErrorContext(ctx, "the keys for webhooks' secrets no longer fit the database; the process is not ready", "error", err)
		case err == nil && !fit:
			s.setUnready("")
			s.env.Logger.InfoContext(ctx, "the keys for webhooks' secrets fit the database again")
		}
		fit = err == nil
	}
	return nil
}

// reasonNotReady is why the process, or one of its roles, is not ready although it runs;
// empty: it is. Keys that do not fit are no concern of roles that need none.
func (s *Service) reasonNotReady(role string) string {
	if reason := s.wrongClock.Load(); reason != nil {
		return *reason
	}
	if reason := s.unready.Load(); reason != nil && (role == "" || needsSecretKey(role)) {
		return strings.TrimSpace(*reason)
	}
	return ""
}
