package readbench

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/api"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// statement is one that the API sent to the database. The limit are the same
// statements with the same arguments.
type statement struct {
	sql  string
	args []any
}

// statementTracer collects statements.
type statementTracer struct {
	mu   sync.Mutex
	seen []statement
}

// TraceQueryStart implements pgx.QueryTracer.
func (t *statementTracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen = append(t.seen, statement{data.SQL, data.Args})
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (*statementTracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceBatchStart implements pgx.BatchTracer.
func (*statementTracer) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

// TraceBatchQuery implements pgx.BatchTracer.
func (t *statementTracer) TraceBatchQuery(_ context.Context, _ *pgx.Conn, data pgx.TraceBatchQueryData) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen = append(t.seen, statement{data.SQL, data.Args})
}

// TraceBatchEnd implements pgx.BatchTracer.
func (*statementTracer) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

func (t *statementTracer) take() []statement {
	t.mu.Lock()
	defer t.mu.Unlock()
	seen := t.seen
	t.seen = nil
	return seen
}

// capture returns the statements that the API uses for a request that it has had before.
func (r *reader) capture(ctx context.Context, q api.Request) ([]statement, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	cfg, err := pg.ParseConfig(r.URL)
	if err != nil {
		return nil, fmt.Errorf("cannot capture a statement: %w", err)
	}
	tracer := &statementTracer{}
	cfg.ConnConfig.Tracer = tracer
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("cannot capture a statement: %w", err)
	}
	defer pool.Close()
	s, err := api.ServeFrom(ctx, r.Database, pool, pool, api.Options{CacheBytes: api.NoCache})
	if err != nil {
		return nil, err
	}
	for range 2 {
		tracer.take()
		resp, err := s.Get(ctx, q)
		if err != nil {
			return nil, err
		}
		if err := resp.Body.Close(); err != nil {
			return nil, fmt.Errorf("cannot capture a statement: %w", err)
		}
	}
	seen := tracer.take()
	if len(seen) == 0 {
		return nil, fmt.Errorf("%s took no statement", q.Path)
	}
	return seen, nil
}

// scriptOf is the script of statements for pgbench, which sends them in one round trip.
func scriptOf(statements []statement) (script string, variables []string, err error) {
	for i, s := range statements {
		text, of, err := s.script("s" + strconv.Itoa(i+1))
		if err != nil {
			return "", nil, err
		}
		script, variables = script+text, append(variables, of...)
	}
	if len(statements) > 1 {
		script = "\\startpipeline\n" + script + "\\endpipeline\n"
	}
	return script, variables, nil
}

// script is the statement for pgbench. Its arguments become variables, whose names begin with a
// prefix, so that it is prepared with parameters as ours is.
func (s statement) script(prefix string) (script string, variables []string, err error) {
	texts := make([]string, len(s.args))
	for i, arg := range s.args {
		name := prefix + "a" + strconv.Itoa(i+1)
		var value string
		switch v := arg.(type) {
		case string:
			if value = v; value == "" { // pgbench has no empty variables
				texts[i] = "''"
				continue
			}
		case int:
			value = strconv.Itoa(v)
		case int64:
			value = strconv.FormatInt(v, 10)
		case bool:
			texts[i] = strconv.FormatBool(v)
			continue
		case time.Time:
			value = v.Format(time.RFC3339Nano)
		case []int64:
			value = "{" + strings.Trim(strings.ReplaceAll(fmt.Sprint(v), " ", ","), "[]") + "}"
		case []byte:
			texts[i] = fmt.Sprintf(`'\x%x'`, v)
			continue
		case nil:
			texts[i] = "NULL"
			continue
		default:
			if p := reflect.ValueOf(arg); p.Kind() == reflect.Pointer && p.IsNil() && p.Type() == reflect.TypeFor[*time.Time]() {
				texts[i] = "NULL::timestamptz"
				continue
			}
			return "", nil, fmt.Errorf("argument %d is a %T, which cannot be passed to pgbench", i+1, arg)
		}
		texts[i] = ":" + name
		variables = append(variables, "-D", name+"="+value)
	}
	script = regexp.MustCompile(`\$(\d+)`).ReplaceAllStringFunc(s.sql, func(p string) string {
		n, aerr := strconv.Atoi(p[1:])
		if aerr != nil || n < 1 || n > len(texts) {
			err = errors.New(p + " has no argument")
			return p
		}
		return texts[n-1]
	})
	return script + ";\n", variables, err
}
