//go:build !linux && !darwin

package datadir

import "errors"

// Free is not known here.
func Free(string) (int64, error) { return 0, errors.ErrUnsupported }
