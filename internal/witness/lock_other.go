//go:build !unix

package witness

import (
	"errors"

	"github.com/ledgerfeed/ledgerfeed/internal/datadir"
)

// Lock fails: there is no lock here that ends with its process, and two witnesses with one
// state could cosign two trees.
func Lock(*datadir.Dir) (unlock func(), err error) {
	return nil, errors.New("a witness runs on Unix alone, where a folder can be locked")
}
