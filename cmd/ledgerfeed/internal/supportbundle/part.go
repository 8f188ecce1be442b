package supportbundle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
)

// part is one file of the archive.
type part struct {
	file, about string
	timeout     time.Duration
	gather      func(context.Context, *source) ([]byte, error)
}

// source is what parts are gathered from.
type source struct {
	env  *cli.Env
	db   *cli.Database
	pool *pgxpool.Pool // nil: the database cannot be read
	hide pseudonyms
}

// Limits of a bundle.
const (
	openTimeout   = 10 * time.Second
	partTimeout   = 10 * time.Second
	doctorTimeout = 40 * time.Second // it also asks servers that may not answer
	totalTimeout  = 2 * time.Minute
	maxPart       = 1 << 20 // bytes
)

// fault is an error whose text may leave the installation.
type fault string

func (f fault) Error() string { return string(f) }

// kindOf says what kind of error it is, without its text, which may quote anything.
func kindOf(err error) string {
	var (
		own      fault
		answered *pgconn.PgError
		connect  *pgconn.ConnectError
	)
	switch {
	case err == nil:
		return ""
	case errors.As(err, &own):
		return own.Error()
	case errors.As(err, &answered):
		return "PostgreSQL refused it with " + answered.Code
	case errors.As(err, &connect):
		return "cannot connect to the database"
	case errors.Is(err, context.DeadlineExceeded):
		return "it took too long"
	}
	return "it failed; ledgerfeed doctor may say why"
}

// write writes a part as JSON.
func write(v any) ([]byte, error) {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("cannot write JSON: %w", err)
	}
	return append(text, '\n'), nil
}
