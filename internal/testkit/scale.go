package testkit

import "os"

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
