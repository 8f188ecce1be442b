//go:build race

package attempt

import "time"

// deadlineSlack under the race detector, which slows everything down.
const deadlineSlack = time.Second
