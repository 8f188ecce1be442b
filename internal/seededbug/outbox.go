//go:build seededbug_outbox

package seededbug

// Active is the bug of this build.
const Active = OwnTransaction
