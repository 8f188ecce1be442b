package pages

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestScratch: what a killed process left is removed, and a workbook in the making keeps its files.
func TestScratch(t *testing.T) { //nolint:paralleltest // it sets the directory for temporary files
	t.Setenv("TMPDIR", t.TempDir())
	alive, dead := testkit.Must(newScratch())(t), testkit.Must(newScratch())(t)
	for _, s := range []*scratch{alive, dead} {
		if err := os.WriteFile(filepath.Join(s.name, "rows"), []byte("Northwind Clinic"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_ = dead.lock.Close() // as the end of its process does
	if err := ClearScratch(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(alive.name, "rows")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dead.name); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the dead process's directory: %v", err)
	}
	alive.remove()
	if left := testkit.Must(os.ReadDir(os.TempDir()))(t); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}
