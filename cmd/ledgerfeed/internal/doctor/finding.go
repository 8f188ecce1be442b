package doctor

import (
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
)

// Level says how much a finding matters.
type Level string

// The levels.
const (
	OK      Level = "ok"      // nothing to do
	Warning Level = "warning" // something will go wrong, or is worse than it could be
	Error   Level = "error"   // something is wrong now
)

// Finding is what one check has found.
type Finding struct {
	Check string `json:"check"`
	Level Level  `json:"level"`
	Text  string `json:"text"`
	Do    string `json:"do"` // what to do; empty with OK
}

// examination is what checks look at.
type examination struct {
	env *cli.Env
	db  *cli.Database

	pool *pgxpool.Pool
}

func ok(format string, args ...any) []Finding {
	return []Finding{{Level: OK, Text: fmt.Sprintf(format, args...)}}
}
