//go:build linux

package workload

import (
	"log/slog"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-chaos/internal/check"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-chaos/internal/cluster"
)

// env is what all parts of the workload use.
type env struct {
	cluster    *cluster.Cluster
	findings   *check.Findings
	history    *check.History
	gate       *gate
	workspaces []string                          // that producers write to
	keys       map[string]map[check.Sight]string // of each workspace, set before anything starts
}

// sights are the permission sets that followers have.
func sights() []check.Sight {
	return []check.Sight{{}, {Pay: true}, {Pay: true, Margin: true}}
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }
