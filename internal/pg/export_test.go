//go:build full

package pg

import ()
