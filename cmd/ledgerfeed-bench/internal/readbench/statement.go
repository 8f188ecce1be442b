package readbench

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-bench/internal/api"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// statement is one that the API sent to the database. The limit is the same
// statement with the same arguments.
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

func (t *statementTracer) take() []statement {
	t.mu.Lock()
	defer t.mu.Unlock()
	seen := t.seen
	t.seen = nil
	return seen
}

// capture sends a request once and returns the statement that the API used for
// it.
func (r *reader) capture(ctx context.Context, q api.Request) (statement, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	cfg, err := pg.ParseConfig(r.URL)
	if err != nil {
		return statement{}, fmt.Errorf("cannot capture a statement: %w", err)
	}
	tracer := &statementTracer{}
	cfg.ConnConfig.Tracer = tracer
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return statement{}, fmt.Errorf("cannot capture a statement: %w", err)
	}
	defer pool.Close()
	s, err := api.ServeFrom(ctx, r.Database, pool, pool, api.Options{CacheBytes: api.NoCache})
	if err != nil {
		return statement{}, err
	}
	tracer.take()
	resp, err := s.Get(ctx, q)
	if err != nil {
		return statement{}, err
	}
	if err := resp.Body.Close(); err != nil {
		return statement{}, fmt.Errorf("cannot capture a statement: %w", err)
	}
	seen := tracer.take()
	if len(seen) != 1 {
		return statement{}, fmt.Errorf("%s took %d statements, want 1", q.Path, len(seen))
	}
	return seen[0], nil
}

// script is the statement for pgbench. Its arguments become variables, so that it
// is prepared with parameters as ours is.
func (s statement) script() (script string, variables []string, err error) {
	texts := make([]string, len(s.args))
	for i, arg := range s.args {
		name := "a" + strconv.Itoa(i+1)
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
