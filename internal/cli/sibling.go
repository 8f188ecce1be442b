package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// FindSibling looks for another program of this project in the directory of this one, where it is
// installed, then on PATH.
func FindSibling(program string) (path string, err error) {
	if self, err := os.Executable(); err == nil {
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(self), program)); err == nil {
			return path, nil
		}
	}
	if path, err = exec.LookPath(program); err != nil {
		return "", fmt.Errorf("cannot find the program %s: go install ./cmd/... builds it beside this one", program)
	}
	return path, nil
}
