package readbench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/api"
	"github.com/ledgerfeed/ledgerfeed/readapi"
)

// bareSelect measures the statements of a request without our program: in pgbench,
// prepared, with as many connections.
func (r *reader) bareSelect(ctx context.Context, q api.Request) (rate float64, what string, err error) {
	program, err := findPgbench()
	if err != nil {
		return 0, "", err
	}
	captured, err := r.capture(ctx, q)
	if err != nil {
		return 0, "", err
	}
	text, variables, err := scriptOf(captured)
	if err != nil {
		return 0, "", fmt.Errorf("%s: %w", q.Path, err)
	}
	script, err := os.CreateTemp("", "ledgerfeed-bench-*.sql")
	if err != nil {
		return 0, "", fmt.Errorf("cannot write the bare statement: %w", err)
	}
	defer func() { _ = os.Remove(script.Name()) }()
	_, err = script.WriteString(text)
	if err = errors.Join(err, script.Close()); err != nil {
		return 0, "", fmt.Errorf("cannot write the bare statement: %w", err)
	}
	settings := ""
	for name, value := range readapi.PoolSettings() {
		settings += " -c " + name + "=" + value
	}
	seconds := int(r.Duration(api.LoadTime).Seconds())
	args := append([]string{"-n", "-M", "prepared", "-c", strconv.Itoa(api.Connections), "-j", "2", "-T", strconv.Itoa(seconds)}, variables...)
	cmd := exec.CommandContext(ctx, program, append(args, "-f", script.Name(), r.URL)...) //nolint:gosec // the path comes from findPgbench
	cmd.Env = append(os.Environ(), "PGOPTIONS="+settings)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return 0, "", fmt.Errorf("pgbench: %w: %s", err, out)
	}
	found := regexp.MustCompile(`tps = ([0-9.]+)`).FindSubmatch(out)
	if found == nil {
		return 0, "", fmt.Errorf("pgbench printed no rate: %s", out)
	}
	rate, err = strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		return 0, "", fmt.Errorf("pgbench printed no rate: %w", err)
	}
	if len(captured) > 1 {
		return rate, "pgbench, the same prepared SELECTs in a pipeline, 16 connections", nil
	}
	return rate, "pgbench, the same prepared SELECT, 16 connections", nil
}

func findPgbench() (string, error) {
	if path, err := exec.LookPath("pgbench"); err == nil {
		return path, nil
	}
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin/pgbench", "/usr/pgsql-*/bin/pgbench", "/opt/homebrew/opt/postgresql*/bin/pgbench"} {
		if found, err := filepath.Glob(pattern); err == nil && len(found) > 0 {
			return found[len(found)-1], nil
		}
	}
	return "", errors.New("pgbench was not found: it comes with PostgreSQL (Debian: postgresql), and its rate is the limit of the pages")
}
