package archtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBugsOnPurposeApply: each patch of cmd/ledgerfeed-chaos/bugs says why it is a bug and still
// applies to the source, so that .ci/seeded-bugs can build the program with it.
func TestBugsOnPurposeApply(t *testing.T) {
	t.Parallel()
	patches, err := filepath.Glob(filepath.Join(root, "cmd", "ledgerfeed-chaos", "bugs", "*.patch"))
	if err != nil {
		t.Fatal(err)
	}
	if len(patches) == 0 {
		t.Fatal("no patches found")
	}
	for _, name := range patches {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, fault := range patchFaults(string(text), readFromRoot) {
			t.Errorf("%s: %s", name, fault)
		}
	}
}

func readFromRoot(path string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, path))
	return string(text), err
}

// patchFaults says what is wrong with a patch, which read's files should have the old lines of.
// The test reads them itself instead of calling git: the go command then knows that a cached
// result is stale when one of them changes.
func patchFaults(patch string, read func(path string) (string, error)) (faults []string) {
	if reason, _, _ := strings.Cut(patch, "diff --git "); strings.TrimSpace(reason) == "" {
		faults = append(faults, "it begins without a sentence that says why it is a bug")
	}
	var path, old, changed string
	hunks := 0
	finish := func() {
		if old == "" && changed == "" {
			return
		}
		hunks++
		if text, err := read(path); err != nil {
			faults = append(faults, err.Error())
		} else if n := strings.Count(text, old); n != 1 || old == changed {
			faults = append(faults, "it does not apply to "+path+": make it anew from today's source. These lines have to be there once:\n"+old)
		}
		old, changed = "", ""
	}
	for line := range strings.Lines(patch) {
		switch {
		case strings.HasPrefix(line, "diff --git "), strings.HasPrefix(line, "@@ "):
			finish()
		case strings.HasPrefix(line, "--- "):
		case strings.HasPrefix(line, "+++ b/"):
			path = strings.TrimSpace(strings.TrimPrefix(line, "+++ b/"))
		case path == "": // the reason
		case strings.HasPrefix(line, "-"):
			old += line[1:]
		case strings.HasPrefix(line, "+"):
			changed += line[1:]
		case strings.HasPrefix(line, " "):
			old += line[1:]
			changed += line[1:]
		case line == "\n": // an empty line of context, from an editor that cuts spaces at the end
			old += line
			changed += line
		}
	}
	finish()
	if hunks == 0 {
		faults = append(faults, "it changes nothing")
	}
	return faults
}

func TestPatchFaults(t *testing.T) {
	t.Parallel()
	const (
		source = "a\nb\nc\n"
		header = "diff --git a/f.go b/f.go\n--- a/f.go\n+++ b/f.go\n@@ -1,3 +1,3 @@\n"
	)
	read := func(string) (string, error) { return source, nil }
	for patch, want := range map[string]string{
		"It says x.\n\n" + header + " a\n-b\n+x\n c\n": "",
		header + " a\n-b\n+x\n c\n":                    "why it is a bug",
		"Stale.\n\n" + header + " a\n-y\n+x\n c\n":     "does not apply to f.go",
		"Nothing.\n\n" + header + " a\n b\n c\n":       "does not apply to f.go",
		"Empty.\n":                                     "changes nothing",
	} {
		if got := strings.Join(patchFaults(patch, read), "; "); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%q: %q, want %q", patch, got, want)
		}
	}
}
