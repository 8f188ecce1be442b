//go:build race

package delivery

import "time"

// deadlineSlack under the race detector, which slows everything down.
const deadlineSlack = time.Second
