package texts

import "testing"

func TestSimilar(t *testing.T) {
	t.Parallel()
	words := []string{"append", "export", "serve", "status", "verify", "api", "project", "deliver", "console"}
	for word, want := range map[string]string{
		"apend": "append", "statsu": "status", "sevre": "serve", "varify": "verify", "verfy": "verify", "consol": "console", "ap": "", "xyz": "", "delete": "", "status": "", "": "",
	} {
		if got, ok := Similar(word, words); got != want || ok != (want != "") {
			t.Errorf("%q: %q, %t; want %q", word, got, ok, want)
		}
	}
	if got := DidYouMean("exprot", words); got != "; did you mean export?" {
		t.Errorf("hint: %q", got)
	}
	if got := DidYouMean("quite another", words); got != "" {
		t.Errorf("hint: %q", got)
	}
}

func TestDistance(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"kitten", "sitting", 3}, {"ab", "ba", 1},
	} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("from %q to %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
