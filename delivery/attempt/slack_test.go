//go:build !race

package attempt

import "time"

// deadlineSlack is how much longer than its deadline an attempt may take.
const deadlineSlack = 100 * time.Millisecond
