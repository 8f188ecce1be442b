package testkit

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// FullVariable asks tests for their full size: all kills, all answers, all pictures. The
// landing does without; .ci/full sets it.
const FullVariable = "LEDGERFEED_TEST_FULL"

// Full tells whether tests run at their full size.
func Full() bool { return os.Getenv(FullVariable) != "" }

// Scale returns how much a test does: full under .ci/full, landing otherwise.
func Scale(landing, full int) int {
	if Full() {
		return full
	}
	return landing
}

// SeedVariable repeats a run of tests that take Seed: it is the number that they print.
const SeedVariable = "LEDGERFEED_TEST_SEED"

// Seed returns what a test's random numbers begin with. The landing always tries the same
// ones, so that a change is refused for its own faults alone; .ci/full tries new ones.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := uint64(1)
	text := os.Getenv(SeedVariable)
	switch {
	case text != "":
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("testkit: %s: %v", SeedVariable, err)
		}
	case Full():
		seed = rand.Uint64() //nolint:gosec // not a secret
	}
	t.Logf("seed %d: %s=%d repeats it", seed, SeedVariable, seed)
	return seed
}
