package readapi

import (
	"errors"
	"io"
	"syscall"

	"github.com/jackc/puddle/v2"
)

// isBroken reports whether an error is that of a connection that ended, or of a
// pool that is being closed.
func isBroken(err error) bool {
	for _, known := range []error{
		io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, puddle.ErrClosedPool,
		syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}
