//go:build full

package entrance

import "context"

// Look asks the nodes and the coordinator again, as Run does from time to time.
func (s *Set) Look(ctx context.Context) { s.look(ctx) }
