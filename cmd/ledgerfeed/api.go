package main

import (
	"context"
	"fmt"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/readapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/access/limit"
	"github.com/ledgerfeed/ledgerfeed/readapi/requestlog"
)

// apiConnections is how many pages can be read at once; beyond what the
// processors can do, more would only make each slower.
const apiConnections = 12

// prepareAPI makes the read API: its keys, its limits and its listener.
func (s *service) prepareAPI(ctx context.Context) error {
	set := &s.program.settings
	pool, err := s.openPool(ctx, pg.Options{MaxConns: apiConnections, ReadBuffer: readapi.ReadBuffer, Settings: readapi.PoolSettings()})
	if err != nil {
		return err
	}
	format := access.NewFormat(set.Brand)
	directory, err := access.NewDirectory(access.DirectoryConfig{Pool: s.pool, Format: format, Clock: s.program.clock, Log: s.logger})
	if err != nil {
		return err
	}
	limiter, err := limit.New(limit.Config{Pool: s.pool, Clock: s.program.clock, Log: s.logger})
	if err != nil {
		return err
	}
	cursorKey, err := readapi.SharedCursorKey(ctx, s.pool)
	if err != nil {
		return err
	}
	requests, err := requestlog.New(requestlog.Config{Pool: s.pool, Clock: s.program.clock, Logger: s.logger})
	if err != nil {
		return err
	}
	api, err := readapi.New(readapi.Config{
		Pool: pool, Log: s.log, Keys: directory, Format: format, Limiter: limiter,
		Clock: s.program.clock, Logger: s.logger, Metrics: s.metrics,
		Brand: set.Brand, BaseURL: set.BaseURL, DocsURL: set.DocsURL,
		TrustedProxies: set.TrustedProxies, CursorKey: cursorKey, Retention: set.Retention,
		Requests: requests,
	})
	if err != nil {
		return fmt.Errorf("prepare the API: %w", err)
	}
	s.add("keys", directory.Run)
	s.add("limits", limiter.Run)
	s.add("request log", requests.Run)
	return s.listen(ctx, roleAPI, "LEDGERFEED_LISTEN", set.Listen, readapi.NewServer(api, s.logger), api.Guard)
}
