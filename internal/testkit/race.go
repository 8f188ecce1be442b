//go:build race

package testkit

// Race tells that the race detector is on. Go code then runs 3 to 10 times slower, and
// PostgreSQL does not.
const Race = true
