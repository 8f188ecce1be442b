//go:build seededbug_checkpoint

package seededbug

// Active is the bug of this build.
const Active = ForgottenCheckpoint
