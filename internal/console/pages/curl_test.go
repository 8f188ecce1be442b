package pages

import (
	"os/exec"
	"strings"
	"testing"
)

// TestCurlIsOneArgument: a shell reads the address as one word that is the path as it was
// sent, whatever a caller wrote into it.
func TestCurlIsOneArgument(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/v1/invoices/in_1":                "https://api.example.com/v1/invoices/in_1",
		"/v1/x';touch$IFSoops;'":           "https://api.example.com/v1/x%27;touch$IFSoops;%27",
		"/v1/$(id)&`id`|!!*;#~":            "https://api.example.com/v1/$(id)&`id`|!!*;#~",
		"/v1/[a-z]%5B%7Bb,c%7D":            "https://api.example.com/v1/%5Ba-z%5D%5B%7Bb,c%7D",
		"/v1/invoices/a%20b%C3%A4%25%00-x": "https://api.example.com/v1/invoices/a%20b%C3%A4%25%00-x",
	} {
		line := curl("https://api.example.com/", &row{Method: "GET", Path: path})
		arguments, ok := strings.CutPrefix(line, "curl ")
		if !ok {
			t.Fatalf("%s: %q", path, line)
		}
		out, err := exec.CommandContext(t.Context(), "sh", "-c", `printf '%s\n' `+arguments).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", line, err, out)
		}
		if got := string(out); got != "-i\n"+want+"\n-H\nAuthorization: Bearer <API_KEY>\n" {
			t.Errorf("%s: a shell reads\n%s", line, got)
		}
	}
	for _, r := range []row{{Method: "GET"}, {Method: "GET", Route: "/v1/invoices/{id}"}, {Method: "GET", Path: "/v1/aaa…"}, {Method: "OTHER", Route: "/v1/me"}} {
		if line := curl("https://api.example.com", &r); line != "" {
			t.Errorf("%+v: %s", r, line)
		}
	}
	if line := curl("https://api.example.com", &row{Method: "HEAD", Route: "/v1/me"}); !strings.HasPrefix(line, "curl -I 'https://api.example.com/v1/me' ") {
		t.Error(line)
	}
}
