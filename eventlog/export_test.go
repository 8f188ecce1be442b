package eventlog

import "time"

// SweepEvery changes the longest time between two passes of a Follow that begins later.
func (n *Notifier) SweepEvery(d time.Duration) { n.followSweep = d }

// QuietFor changes after what time without a notification a Run that begins later asks whether the
// server is still there.
func (n *Notifier) QuietFor(d time.Duration) { n.quiet = d }
