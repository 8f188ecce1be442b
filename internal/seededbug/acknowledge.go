//go:build seededbug_acknowledge

package seededbug

// Active is the bug of this build.
const Active = EarlyAcknowledgement
