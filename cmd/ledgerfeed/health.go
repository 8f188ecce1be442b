package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/service"
)

// healthTimeout bounds the wait for the answer, which takes as long as the probes of
// /readyz at most.
const healthTimeout = 5 * time.Second

func healthCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "health",
		Short: "Ask the process that serves on this machine whether it is ready",
		Long: `Ask the process that serves on this machine, at LEDGERFEED_ADMIN_LISTEN, whether it
is ready, as /readyz says it. Exit status 1 if it is not, or does not run. For
health checks in a container, which has no other program.`,
		Args: cli.ExactArgs(0),
		RunE: env.Run(func(ctx context.Context, _ []string) error {
			answer, err := askReady(ctx, "http://"+reachable(env.Settings.AdminListen)+"/readyz")
			if err != nil {
				return err
			}
			if !answer.Ready {
				return fmt.Errorf("the process is not ready: %s", strings.Join(reasonsOf(answer), "; "))
			}
			return env.Print(answer, func(w io.Writer) error {
				_, err := fmt.Fprintln(w, "The process is ready.")
				return err
			})
		}),
	}
}

// askReady asks a process's /readyz.
func askReady(ctx context.Context, url string) (answer service.Readiness, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return answer, fmt.Errorf("cannot ask %s: %w", url, err)
	}
	client := http.Client{Timeout: healthTimeout}
	response, err := client.Do(request)
	if err != nil {
		return answer, fmt.Errorf("no process answers at LEDGERFEED_ADMIN_LISTEN: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if err := json.NewDecoder(io.LimitReader(response.Body, 1<<20)).Decode(&answer); err != nil {
		return answer, fmt.Errorf("what answers %s is no serving process: %w", url, err)
	}
	return answer, nil
}

// reasonsOf lists why a process is not ready, by role.
func reasonsOf(answer service.Readiness) (list []string) {
	for _, r := range answer.Reasons {
		if r.Role == "" {
			list = append(list, r.Reason)
			continue
		}
		list = append(list, r.Role+": "+r.Reason)
	}
	return list
}

// reachable is an address at which a listener can be reached from its own machine: one
// that listens at all addresses, at that of the machine itself.
func reachable(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	ip, ipErr := netip.ParseAddr(host)
	if err == nil && (host == "" || ipErr == nil && ip.IsUnspecified()) {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return listen
}
