//go:build seededbug_retry

package seededbug

// Active is the bug of this build.
const Active = LostRetry
