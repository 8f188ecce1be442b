//go:build seededbug_signature

package seededbug

// Active is the bug of this build.
const Active = UnsignedRetry
