//go:build seededbug_position

package seededbug

// Active is the bug of this build.
const Active = SkippedPosition
