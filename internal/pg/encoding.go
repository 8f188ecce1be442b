package pg

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// encoding is the one that a database has to have.
const encoding = "UTF8"

// EncodingError says that a database cannot keep every character.
type EncodingError struct{ Database, Encoding string }

// Error says what to do.
func (e *EncodingError) Error() string {
	return fmt.Sprintf("the database %s has the encoding %s, which cannot keep every character of the log, so nothing was made in it: %s", e.Database, e.Encoding, e.Do())
}

// Do is how to make a database that fits. The locale C goes with every encoding, and the
// tables sort by bytes whatever the locale.
func (e *EncodingError) Do() string {
	name := strings.TrimSuffix(e.Database, "_utf8") + "_utf8"
	return fmt.Sprintf("make another database with CREATE DATABASE %s ENCODING 'UTF8' LOCALE 'C' TEMPLATE template0; and name it in DATABASE_URL", pgx.Identifier{name}.Sanitize())
}

// CheckEncoding returns an *EncodingError where the encoding of a database is not UTF8.
func CheckEncoding(ctx context.Context, q querier) error {
	var database, is string
	if err := q.QueryRow(ctx, `SELECT current_database(), current_setting('server_encoding')`).Scan(&database, &is); err != nil {
		return fmt.Errorf("read the encoding of the database: %w", err)
	}
	if is != encoding {
		return &EncodingError{database, is}
	}
	return nil
}
