//go:build seededbug_ties

package seededbug

// Active is the bug of this build.
const Active = SkippedTies
