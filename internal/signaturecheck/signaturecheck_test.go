//go:build outside

package signaturecheck_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery/attempt"
	"github.com/ledgerfeed/ledgerfeed/internal/signaturecheck"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestSamplesCheckSignatures runs each sample in its language, with headers as
// deliveries have them and with forged ones.
func TestSamplesCheckSignatures(t *testing.T) {
	t.Parallel()
	const secret, old, body = "whsec_new", "whsec_old", `{"id":"evt_1","name":"ü"}`
	now := time.Now()
	good := attempt.Sign(now, []byte(body), secret)
	type try struct {
		Header, Body string
		Want         bool
	}
	tries := []try{
		{good, body, true},
		{attempt.Sign(now, []byte(body), old, secret), body, true}, // any one v1
		{attempt.Sign(now.Add(-4*time.Minute), []byte(body), secret), body, true},
		{attempt.Sign(now.Add(-6*time.Minute), []byte(body), secret), body, false},
		{attempt.Sign(now.Add(6*time.Minute), []byte(body), secret), body, false},
		{attempt.Sign(now, []byte(body), old), body, false},
		{good, body + " ", false},
		{"", body, false},
		{"t=,v1=", body, false},
		{"t=abc,v1=zz", body, false},
		{good[:len(good)-2], body, false},
		{strings.Replace(good, "v1=", "v0=", 1), body, false},
	}
	input := testkit.Must(json.Marshal(tries))(t)
	list := testkit.Must(signaturecheck.Samples("Acme-Signature"))(t)
	for _, s := range list {
		if !strings.Contains(s.Code, "Acme-Signature") || strings.Contains(s.Code, "SERVICE") {
			t.Errorf("%s does not name the header", s.Language)
		}
	}
	dir := t.TempDir()
	keep := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const goMain = `
func main() {
	var tries []struct{ Header, Body string }
	if err := json.NewDecoder(os.Stdin).Decode(&tries); err != nil { panic(err) }
	var got []bool
	for _, t := range tries { got = append(got, verify(t.Header, []byte(t.Body), "whsec_new")) }
	json.NewEncoder(os.Stdout).Encode(got)
}`
	keep("check.js", list[0].Code+`;console.log(JSON.stringify(JSON.parse(require("fs").readFileSync(0)).map((t) => verify(t.Header, Buffer.from(t.Body), "whsec_new"))))`)
	keep("check.py", list[1].Code+"\nimport json, sys\nprint(json.dumps([verify(t['Header'], t['Body'].encode(), 'whsec_new') for t in json.load(sys.stdin)]))\n")
	keep("check.go", strings.Replace(strings.Replace(list[2].Code, "package webhook", "package main", 1), "import (", "import (\n\"encoding/json\"\n\"os\"", 1)+goMain)
	keep("check.php", list[3].Code+`echo json_encode(array_map(fn($t) => verify($t->Header, $t->Body, 'whsec_new'), json_decode(stream_get_contents(STDIN))));`)
	for _, run := range [][]string{{"node", "check.js"}, {"python3", "check.py"}, {"go", "run", "check.go"}, {"php", "check.php"}} {
		cmd := exec.CommandContext(t.Context(), run[0], run[1:]...)
		cmd.Dir = dir
		cmd.Stdin = bytes.NewReader(input)
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("%v: %v", run, err)
			continue
		}
		var got []bool
		if err := json.Unmarshal(out, &got); err != nil || len(got) != len(tries) {
			t.Errorf("%v says %s (%v)", run, out, err)
			continue
		}
		for i, try := range tries {
			if got[i] != try.Want {
				t.Errorf("%s takes %q: %v, want %v", run[0], try.Header, got[i], try.Want)
			}
		}
	}
}
