//go:build seededbug_ingest

package seededbug

// Active is the bug of this build.
const Active = UnappendedSkipped
