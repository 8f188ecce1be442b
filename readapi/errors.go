package readapi

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/answer"
)

// problemOf turns any error into a problem. An unknown error becomes an internal error, whose text
// callers do not see.
func problemOf(err error) *answer.Error {
	var p *answer.Error
	if errors.As(err, &p) {
		return p
	}
	if errors.Is(err, errOlderRules) {
		return answer.Rebuilding(err)
	}
	var database *pgconn.PgError
	if errors.As(err, &database) && database.Code == codeCanceled {
		return answer.TooExpensive(err)
	}
	if isUnavailable(err) {
		return answer.Unavailable(err)
	}
	return answer.Internal(err)
}

// isRefused reports whether an error says that a key is not valid.
func isRefused(err error) bool { return errors.Is(err, access.ErrRefused) }

// codeCanceled is PostgreSQL's code for a statement that its timeout or an operator cancelled.
const codeCanceled = "57014"

// isUnavailable reports whether an error means that the database was unavailable or time ran out,
// so that the same request may succeed a little later.
func isUnavailable(err error) bool {
	var (
		refused  *pgconn.ConnectError
		network  net.Error
		database *pgconn.PgError
	)
	switch {
	case errors.Is(err, access.ErrUnavailable), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return true
	case errors.As(err, &database):
		// Error classes from PostgreSQL's Appendix A: connections, insufficient resources, operator
		// intervention, system errors, and transaction rollback, which a standby reports when it
		// has to cancel a statement.
		if len(database.Code) < 2 {
			return false
		}
		switch database.Code[:2] {
		case "08", "53", "57", "58", "40":
			return true
		}
		return false
	}
	return errors.As(err, &refused) || errors.As(err, &network) || pgconn.SafeToRetry(err) || isBroken(err)
}

// isBroken reports whether an error comes from a connection that ended or a pool that is being
// closed.
func isBroken(err error) bool {
	for _, known := range []error{
		io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, pg.ErrClosed,
		syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}
