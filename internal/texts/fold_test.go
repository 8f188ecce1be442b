package texts_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

func TestMain(m *testing.M) { testkit.Main(m, migrations.Up) }

func TestFold(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Zürich  WEST": "zurich west", "Zu\u0308rich": "zurich", "O’Hare": "o'hare", "Straße": "strasse", "ΑΘΉΝΑ": "αθηνα", "Шевченко": "шевченко", "ＡＢＣ": "abc",
		" a\t–\u00a0b ": "a - b", "서울": "서울", "": "",
	} {
		if got := texts.Fold(text); texts.Fold(got) != got || got != texts.Fold(want) {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

// TestPattern: PostgreSQL finds by the pattern of a part what is alike, whatever its locale knows, and
// nothing else.
func TestPattern(t *testing.T) {
	t.Parallel()
	conn := testkit.Must(pgx.Connect(t.Context(), testkit.NewDatabase(t)))(t)
	defer func() { _ = conn.Close(t.Context()) }()
	finds := func(text, part string) (found bool) {
		if err := conn.QueryRow(t.Context(), `SELECT $1 ~ $2`, text, texts.Pattern(part)).Scan(&found); err != nil {
			t.Fatalf("%q in %q: %v", part, text, err)
		}
		return found
	}
	for part, text := range map[string]string{
		"zurich": "ZÜRICH West", "Zürich": "zu\u0308rich", "o'hare": "O’Hare", "côte d’or": "Cote  d'Or", "ШЕВЧЕНКО": "Тарас Шевченко", "Αθηνα": "Αθήνα",
		"(a.b)*[c]^-`": "x (A.B)*[C]^–` y", `a\b`: `A\B`, "서울": "서울 시",
	} {
		if !finds(text, part) {
			t.Errorf("%q is not found in %q by %s", part, text, texts.Pattern(part))
		}
	}
	for part, text := range map[string]string{"a.c": "abc", "b": "aac", "[a-z]": "b", ".*": "x", `\d`: "1"} {
		if finds(text, part) {
			t.Errorf("%q is found in %q by %s", part, text, texts.Pattern(part))
		}
	}
	latin := rapid.StringMatching(`[a-zA-ZäöüÄÖÜéÉčñÑ'’\[\]\\^ .*+?(){}|$-]{0,6}`)
	rapid.Check(t, func(r *rapid.T) {
		text, part := latin.Draw(r, "text"), latin.Draw(r, "part")
		if want := strings.Contains(texts.Fold(text), texts.Fold(part)); finds(text, part) != want && strings.Join(strings.Fields(text), " ") == text {
			r.Errorf("%q in %q: want %v by %s", part, text, want, texts.Pattern(part))
		}
	})
}
