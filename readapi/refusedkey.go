package readapi

import (
	"errors"

	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// refusedKey finds what is known of a refused key in the error that refused it.
func refusedKey(err error) *access.RefusedError {
	var refused *access.RefusedError
	if errors.As(err, &refused) {
		return refused
	}
	return nil
}
