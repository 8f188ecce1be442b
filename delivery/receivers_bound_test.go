//go:build full && outside

package delivery_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestExampleReceiversBound sends each example 30,000 numbers after a gap. They keep 10,000 of
// them, and none if they know no API.
func TestExampleReceiversBound(t *testing.T) {
	t.Parallel()
	docs := testkit.Must(filepath.Abs("../docs/receivers"))(t)
	const goProbe = `package main

import "fmt"

type event struct{ ID, CreatedAt string }

func main() {
	for _, api := range []string{"http://127.0.0.1:1", ""} {
		m := &missing{api: api, expected: 1, ahead: map[int64]string{}}
		for n := 2; n <= 30_000; n++ {
			m.arrived(fmt.Sprint(n), fmt.Sprintf("2026-10-02T09:15:00.%05dZ", n))
		}
		fmt.Println(len(m.ahead), m.highest, m.oldest)
	}
}
`
	dir := t.TempDir()
	for name, content := range map[string][]byte{"missing.go": testkit.Must(os.ReadFile(filepath.Join(docs, "go", "missing.go")))(t), "main.go": []byte(goProbe)} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ name, dir, none, program, flag, code string }{
		{"go", dir, "", "go", "run", "."},
		{"node", filepath.Join(docs, "node"), "null", "node", "--eval", `import("./missing.mjs").then(({ Missing }) => {
  for (const api of ["http://127.0.0.1:1", ""]) {
    const m = new Missing(api, "key", 600, 1, () => {});
    for (let n = 2; n <= 30000; n++) m.arrived(String(n), "2026-10-02T09:15:00." + String(n).padStart(5, "0") + "Z");
    console.log(m.ahead.size, m.highest, m.oldest);
  }
})`},
		{"python", filepath.Join(docs, "python"), "None", "python3", "-Bc", `
from missing import Missing
for api in "http://127.0.0.1:1", "":
    m = Missing(api, "key", 600, 1, print)
    for n in range(2, 30001):
        m.arrived(str(n), "2026-10-02T09:15:00.%05dZ" % n)
    print(len(m.ahead), m.highest, m.oldest)
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			command := exec.CommandContext(t.Context(), program(t, c.program), c.flag, c.code)
			if c.name == "go" {
				command.Args = append(command.Args[:2], "missing.go", "main.go")
			}
			command.Dir = c.dir
			out, err := command.CombinedOutput()
			want := strings.TrimSpace("10000 30000 2026-10-02T09:15:00.10002Z\n0 0 " + c.none)
			if err != nil || strings.TrimSpace(string(out)) != want {
				t.Errorf("%v: %s\nwant %s", err, out, want)
			}
		})
	}
}
