//go:build seededbug_chain

package seededbug

// Active is the bug of this build.
const Active = UncheckedChain
