//go:build seededbug_visible

package seededbug

// Active is the bug of this build.
const Active = EventAheadOfData
