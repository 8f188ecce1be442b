package localpg

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain makes the test binary a keeper, a user of its own that tests can
// kill, or a program that has forgotten something; else it runs the tests and
// sees that no goroutine outlives the servers it belongs to.
func TestMain(m *testing.M) {
	forgetfulMain()
	RunKeeperIfAsked()
	helperMain()
	goleak.VerifyTestMain(m)
}
