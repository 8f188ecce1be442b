package localpg

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain makes the test binary a helper process if it was started as one;
// otherwise it runs the tests and checks that no goroutine outlives the servers it
// belongs to.
func TestMain(m *testing.M) {
	helperMain()
	goleak.VerifyTestMain(m)
}
