package service

import (
	"context"
	"log/slog"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// tellSystemd tells systemd about a change of state, where it started the process
// with Type=notify; elsewhere it does nothing.
func tellSystemd(ctx context.Context, logger *slog.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		logger.WarnContext(ctx, "cannot notify systemd", "state", state, "error", err)
	}
}

// feedWatchdog tells systemd's watchdog, where the unit has one (WatchdogSec), that
// the process is alive, until ctx ends. It does so three times in each period. A
// database that is away is no reason to be restarted, so it is not asked.
func feedWatchdog(ctx context.Context, logger *slog.Logger) error {
	period, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		logger.WarnContext(ctx, "cannot read the period of systemd's watchdog", "error", err)
	}
	if period == 0 {
		<-ctx.Done()
		return nil
	}
	ticker := time.NewTicker(period / 3)
	defer ticker.Stop()
	for {
		tellSystemd(ctx, logger, daemon.SdNotifyWatchdog)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}
