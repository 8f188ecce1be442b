//go:build linux

package workload

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-chaos/internal/check"
	"github.com/ledgerfeed/ledgerfeed/internal/flow"
)

// commands runs verify and rebuild beside everything else.
type commands struct {
	*env

	verified, rebuilt atomic.Int64 // runs that came to their end
}

const commandsEvery = 12 * time.Second

func (c *commands) run(ctx context.Context) {
	for n := 0; flow.Sleep(ctx, commandsEvery); n++ {
		if n%3 == 2 {
			if c.once(ctx, "rebuild") {
				c.rebuilt.Add(1)
			}
		} else if c.once(ctx, "verify") {
			c.verified.Add(1)
		}
	}
}

// once runs a command. It may fail because the database is away; it may not find a
// difference.
func (c *commands) once(ctx context.Context, command string) bool {
	limited, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	_, err := c.cluster.Output(limited, command)
	if err == nil {
		return true
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) && differs(err.Error()) {
		c.findings.Add(check.RuleVerify, "%s beside the load: %v", command, err)
	}
	return false
}

// differs tells whether verify says in its error that there are differences.
func differs(text string) bool {
	return strings.Contains(text, "there is one difference") || strings.Contains(text, "there are ") && strings.Contains(text, " differences")
}
