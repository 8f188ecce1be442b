package supportbundle

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/doctor"
	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/service"
	"github.com/ledgerfeed/ledgerfeed/internal/settings"
)

// plainSettings are those whose values tell nothing about the installation's people,
// machines and accounts.
func plainSettings() []string {
	return []string{
		"LEDGERFEED_MAX_CONNECTIONS", "LEDGERFEED_MAX_WAITS", "LEDGERFEED_WHOLE_LISTS", "LEDGERFEED_WHOLE_LISTS_PER_WORKSPACE", "LEDGERFEED_WHOLE_LIST_TIMEOUT", "LEDGERFEED_WHOLE_LIST_STALL",
		"LEDGERFEED_RETENTION", "LEDGERFEED_RETRY_SCHEDULE", "LEDGERFEED_TURN_OFF_AFTER", "LEDGERFEED_SECRET_OVERLAP",
		"LEDGERFEED_WEBHOOK_TIMEOUT", "LEDGERFEED_SMTP_REQUIRE_TLS", "LEDGERFEED_DRAIN_DELAY", "LEDGERFEED_AUDIT_EVERY", "LEDGERFEED_AUDIT_RATE",
		"LEDGERFEED_RELAY_FORM", "LEDGERFEED_RELAY_ENVELOPE", "LEDGERFEED_PPROF", "LEDGERFEED_LOG_FORMAT", "LEDGERFEED_LOG_LEVEL",
	}
}

func gatherSettings(_ context.Context, s *source) ([]byte, error) {
	type setting struct {
		Variable string `json:"variable"`
		Value    string `json:"value"`
		From     string `json:"from"`
	}
	var list []setting
	for _, one := range s.env.InForce() {
		f := setting{one.Variable, one.Value, one.From}
		if one.From != settings.FromDefault && one.From != settings.FromEnvironment {
			f.From = "file or flag"
		}
		switch {
		case slices.Contains(plainSettings(), one.Variable):
		case one.From == settings.FromDefault:
			f.Value = "(default)" // which may be made of others
		default:
			f.Value = "(set, not shown)"
		}
		list = append(list, f)
	}
	return write(list)
}

// plainChecks are those of doctor whose texts name nothing but numbers, versions, roles of
// processes and tables.
func plainChecks() []string {
	return []string{
		"version", "schema", "clock", "durability", "connections", "vacuum", "size", "dead rows", "old days", "processes", "read models", "webhooks",
	}
}

func gatherDoctor(ctx context.Context, s *source) ([]byte, error) {
	if s.pool == nil {
		return nil, fault("the database cannot be read")
	}
	others, err := othersTables(ctx, s.pool)
	if err != nil {
		return nil, err
	}
	list := doctor.Examine(ctx, s.env, s.db, s.pool)
	for i := range list {
		names := func(table string) bool { return strings.Contains(list[i].Text, table) }
		if list[i].Failed || !slices.Contains(plainChecks(), list[i].Check) || slices.ContainsFunc(others, names) {
			list[i].Text, list[i].Do = "", ""
		}
	}
	return write(list)
}

// othersTables are the tables of the schema that are not this program's; without the log,
// that is all of them.
func othersTables(ctx context.Context, pool *pgxpool.Pool) ([]string, error) {
	rows, err := pool.Query(ctx, `
		SELECT c.relname::text FROM pg_class c LEFT JOIN pg_class log ON log.oid = to_regclass('event_log')
		 WHERE c.relnamespace = to_regnamespace(current_schema())::oid AND c.relkind IN ('r', 'p', 'm')
		   AND (log.oid IS NULL OR (c.relnamespace, c.relowner) <> (log.relnamespace, log.relowner))`)
	if err != nil {
		return nil, fmt.Errorf("cannot list tables: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// ask asks the process that this machine serves with.
func ask(ctx context.Context, s *source, path string) (status int, body []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, service.AdminURL(s.env.Settings.AdminListen)+path, http.NoBody)
	if err != nil {
		return 0, nil, fmt.Errorf("cannot ask the process: %w", err)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		return 0, nil, fault("nobody answers at LEDGERFEED_ADMIN_LISTEN")
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	body, err = io.ReadAll(io.LimitReader(answer.Body, maxPart+1))
	if err != nil {
		return 0, nil, fmt.Errorf("cannot read the process's answer: %w", err)
	}
	return answer.StatusCode, body, nil
}

// gatherReady leaves the reasons out, which quote errors; doctor finds the same.
func gatherReady(ctx context.Context, s *source) ([]byte, error) {
	status, body, err := ask(ctx, s, "/readyz")
	if err != nil {
		return nil, err
	}
	var answer struct {
		Ready   bool
		Reasons []struct{ Role string }
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fault("what answers at LEDGERFEED_ADMIN_LISTEN is not this program")
	}
	roles := []string{}
	for _, r := range answer.Reasons {
		if r.Role == "" {
			r.Role = "all"
		}
		roles = append(roles, r.Role)
	}
	return write(map[string]any{"status": status, "ready": answer.Ready, "roles_not_ready": roles})
}

// gatherMetrics takes the metrics of the program and of Go, and no series that is of one
// workspace.
func gatherMetrics(ctx context.Context, s *source) ([]byte, error) {
	status, body, err := ask(ctx, s, "/metrics")
	if err != nil {
		return nil, err
	}
	if status != http.StatusOK || !bytes.Contains(body, []byte("\nledgerfeed_")) {
		return nil, fault("what answers at LEDGERFEED_ADMIN_LISTEN is not this program")
	}
	var kept bytes.Buffer
	for lines := bufio.NewScanner(bytes.NewReader(body)); lines.Scan(); {
		line := lines.Text()
		name := strings.TrimPrefix(strings.TrimPrefix(line, "# HELP "), "# TYPE ")
		ours := strings.HasPrefix(name, "ledgerfeed_") || strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_")
		if ours && !strings.Contains(line, `workspace="`) {
			kept.WriteString(line + "\n")
		}
	}
	return kept.Bytes(), nil
}

func gatherGoroutines(ctx context.Context, s *source) ([]byte, error) {
	status, body, err := ask(ctx, s, "/debug/pprof/goroutine?debug=1")
	switch {
	case err != nil:
		return nil, err
	case status != http.StatusOK:
		return nil, fault("the process offers none: LEDGERFEED_PPROF is not true")
	}
	return body, nil
}
