package eventlog

import "time"

// SweepEvery changes the longest time between two passes of a Follow that begins later.
func (n *Notifier) SweepEvery(d time.Duration) { n.followSweep = d }
