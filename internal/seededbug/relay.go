//go:build seededbug_relay

package seededbug

// Active is the bug of this build.
const Active = UnsentSkipped
