package testkit

import (
	"os"
	"os/exec"
)

// Child is this test program, to be started as another process. The environment
// tells its TestMain what to do. On Linux it is killed when the test process dies.
func Child(env ...string) *exec.Cmd {
	c := exec.Command(os.Args[0]) //nolint:gosec,noctx // the program itself; the test kills it
	c.Env = append(os.Environ(), env...)
	c.Stderr = os.Stderr
	EndWithTest(c)
	return c
}
