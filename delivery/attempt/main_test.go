package attempt

import (
	"fmt"
	"os"
	"testing"
)

// childHostile asks this program to run the hostile receivers.
const childHostile = "ATTEMPT_TEST_RECEIVERS"

func TestMain(m *testing.M) {
	if os.Getenv(childHostile) != "" {
		if err := childReceivers(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "receivers:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}
