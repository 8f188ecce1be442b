//go:build seededbug_payouts

package seededbug

// Active is the bug of this build.
const Active = ShownPayouts
