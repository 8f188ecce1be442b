// Package sibling finds the other programs of this project, which are installed side by
// side.
package sibling

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Find looks for a program in the directory of this one, then on PATH.
func Find(program string) (path string, err error) {
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
