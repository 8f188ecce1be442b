package ingestapi_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/brand"
	"github.com/ledgerfeed/ledgerfeed/internal/ingestapi"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

var start = time.Date(2026, 10, 2, 9, 15, 30, 0, time.UTC)

// bundle is a database with the workspaces acme and globex, and what makes and checks keys in it.
type bundle struct {
	*testing.T
	pool      testkit.DB
	clock     *testkit.Clock
	store     *ingestapi.KeyStore
	directory *ingestapi.KeyDirectory
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{T: t, pool: testkit.Pool(t), clock: testkit.NewClock(start)}
	testkit.Must(b.pool.Exec(t.Context(), `INSERT INTO workspace (workspace_id, name, created_at) VALUES ('acme', 'Acme Inc.', $1), ('globex', 'Globex', $1)`, start))(t)
	b.store = ingestapi.NewKeyStore(ingestapi.KeyStoreConfig{Pool: b.pool, Format: ingestapi.KeyFormat(brand.Brand{}), Clock: b.clock.Now})
	b.directory = testkit.Must(ingestapi.NewKeyDirectory(b.pool, ingestapi.KeyFormat(brand.Brand{}), b.clock.Now))(t)
	return b
}

func (b *bundle) create(n ingestapi.KeyOptions) (*ingestapi.KeyRecord, string) {
	b.Helper()
	r, secret, err := b.store.Create(b.Context(), n)
	if err != nil {
		b.Fatal(err)
	}
	return r, secret.Reveal()
}

// opens says whether a text is a valid key.
func (b *bundle) opens(text string) bool {
	b.Helper()
	_, err := b.directory.Authenticate(b.Context(), text)
	if err != nil && !errors.Is(err, ingestapi.ErrKeyRefused) {
		b.Fatal(err)
	}
	return err == nil
}

// TestTheLifeOfAKey: what a key may do, and when each of its secrets ends.
func TestTheLifeOfAKey(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r, first := b.create(ingestapi.KeyOptions{Workspaces: []string{"globex", "acme", "acme"}, Name: "shop", Types: []string{"invoice.sent", "client.recorded"}})
	k := testkit.Must(b.directory.Authenticate(t.Context(), first))(t)
	if k.ID != r.ID || k.Name != "shop" || !slices.Equal(k.Workspaces, []string{"acme", "globex"}) || !strings.HasPrefix(first, k.Prefix+"_") {
		t.Errorf("%+v of %+v", k, r)
	}
	for _, c := range []struct {
		got, want bool
	}{
		{k.MayAppendTo("acme"), true}, {k.MayAppendTo("globex"), true}, {k.MayAppendTo("other"), false},
		{k.MayAppend("invoice.sent"), true}, {k.MayAppend("invoice.paid"), false},
	} {
		if c.got != c.want {
			t.Errorf("%+v", c)
		}
	}
	// A rotation with an overlap keeps the old secret until its end, and one without ends all at once.
	_, secret, err := b.store.Rotate(t.Context(), r.ID, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	second := secret.Reveal()
	b.clock.Advance(time.Second)
	if !b.opens(first) || !b.opens(second) {
		t.Error("not both secrets work during the overlap")
	}
	b.clock.Advance(time.Hour)
	if b.opens(first) || !b.opens(second) {
		t.Error("the old secret works after the overlap, or the new one does not")
	}
	_, secret, err = b.store.Rotate(t.Context(), r.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	b.clock.Advance(time.Second)
	if b.opens(second) || !b.opens(secret.Reveal()) {
		t.Error("the old secret works after a rotation without an overlap, or the new one does not")
	}
	// Revoked, within a second.
	revoked := testkit.Must(b.store.Revoke(t.Context(), r.ID))(t)
	b.clock.Advance(time.Second)
	if b.opens(secret.Reveal()) {
		t.Error("a revoked key works")
	}
	again := testkit.Must(b.store.Revoke(t.Context(), r.ID))(t)
	if revoked.Live() || !again.RevokedAt.Equal(revoked.RevokedAt) {
		t.Errorf("revoked %v, then %v", revoked.RevokedAt, again.RevokedAt)
	}
	if _, _, err := b.store.Rotate(t.Context(), r.ID, 0); !is[*ingestapi.RevokedKeyError](err) {
		t.Error(err)
	}
	list := testkit.Must(b.store.List(t.Context(), "acme"))(t)
	if len(list) != 1 || list[0].ID != r.ID || list[0].Prefix != secret.Prefix() || list[0].Live() || !slices.Equal(list[0].Workspaces, k.Workspaces) || !slices.Equal(list[0].Types, k.Types) {
		t.Errorf("%+v", list)
	}
	var lines int
	if err := b.pool.QueryRow(t.Context(), `SELECT count(*) FROM console_audit WHERE object_id = $1 AND workspace_id = 'globex'`, r.ID).Scan(&lines); err != nil || lines != 4 {
		t.Errorf("%d lines in the audit trail, %v", lines, err)
	}
}

func is[E error](err error) bool {
	_, found := errors.AsType[E](err)
	return found
}

// TestWhatCannotBeMade: faults of a new key are named together, and nothing is made.
func TestWhatCannotBeMade(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, _, err := b.store.Create(t.Context(), ingestapi.KeyOptions{Types: []string{"invoice.send"}})
	for _, want := range []string{"workspace: want", "name: must not be empty", `types: there is no entry type "invoice.send"`, "invoice.sent"} {
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, _, err := b.store.Create(t.Context(), ingestapi.KeyOptions{Workspaces: []string{"acme", "acne"}, Name: "x"}); !is[*domain.UnknownWorkspaceError](err) {
		t.Error(err)
	}
	if _, _, err := b.store.Rotate(t.Context(), "producer_x", 25*time.Hour); !is[*ingestapi.InvalidKeyError](err) {
		t.Error(err)
	}
	_, text := b.create(ingestapi.KeyOptions{Workspaces: []string{"acme"}, Name: "x"})
	if _, err := b.store.Revoke(t.Context(), text); !is[*ingestapi.UnknownKeyError](err) || strings.Contains(err.Error(), text) {
		t.Error(err)
	}
	if _, err := b.store.List(t.Context(), "acne"); !is[*domain.UnknownWorkspaceError](err) {
		t.Error(err)
	}
	if list := testkit.Must(b.store.List(t.Context(), ""))(t); len(list) != 1 || list[0].Types != nil {
		t.Errorf("%+v", list)
	}
}

// TestOnlyAHashIsStored: the database has nothing from which a key follows.
func TestOnlyAHashIsStored(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, text := b.create(ingestapi.KeyOptions{Workspaces: []string{"acme"}, Name: "x"})
	var everything string
	var stored []byte
	err := b.pool.QueryRow(t.Context(), `SELECT (SELECT json_agg(p)::text FROM producer p) || (SELECT json_agg(s)::text FROM producer_secret s) || (SELECT json_agg(a)::text FROM console_audit a), (SELECT hash FROM producer_secret)`).Scan(&everything, &stored)
	if err != nil {
		t.Fatal(err)
	}
	if secret := text[strings.LastIndex(text, "_")+1:]; strings.Contains(everything, secret[:8]) {
		t.Error("the database holds a part of the secret")
	}
	if sha256.Sum256([]byte(text)) != [32]byte(stored) {
		t.Error("the hash is not that of the key")
	}
}

// TestTheKindsOfKeysAreApart: no key of one kind has the form of the other, whatever the brand, also
// when it is cut or lengthened by the lead; and what keeps API keys out of logs finds both.
func TestTheKindsOfKeysAreApart(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"SERVICE", "producer", "producer-2", "a"} {
		named := testkit.Must(brand.Parse(name))(t)
		api, producers := access.NewFormat(named), ingestapi.KeyFormat(named)
		rapid.Check(t, func(r *rapid.T) {
			random := strings.NewReader(string(rapid.SliceOfN(rapid.Byte(), 400, 400).Draw(r, "random")))
			key, err := api.Generate(random)
			if err != nil {
				r.Skip("too few bytes that are used")
			}
			own, err := producers.Generate(random)
			if err != nil {
				r.Skip("too few bytes that are used")
			}
			for text, want := range map[string][2]bool{
				key.Reveal():               {true, false},
				own.Reveal():               {false, true},
				"producer_" + key.Reveal(): {false, false},
				strings.TrimPrefix(own.Reveal(), "producer_"): {false, false},
			} {
				_, err := producers.Parse(text)
				if got := [2]bool{api.Is(text), err == nil}; got != want {
					r.Errorf("%s: an API key, a producer's: %v, want %v", text, got, want)
				}
			}
			for _, f := range []access.Format{api, producers} {
				if shown := f.Redact("GET /x?key=" + own.Reveal()); !f.LooksLikeKey(own.Reveal()) || strings.Contains(shown, own.Reveal()[len(own.Prefix())+1:]) || !strings.Contains(shown, own.Prefix()) {
					r.Errorf("%s is shown", shown)
				}
			}
			if shown := fmt.Sprintf("%v %+v %#v %s", own, own, own, slog.AnyValue(own)); strings.Contains(shown, own.Reveal()) {
				r.Errorf("%s is shown", shown)
			}
		})
	}
}

// TestWithoutADatabase: a key that cannot be checked is not refused, and one that was found just now
// still works.
func TestWithoutADatabase(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, known := b.create(ingestapi.KeyOptions{Workspaces: []string{"acme"}, Name: "x"})
	_, other := b.create(ingestapi.KeyOptions{Workspaces: []string{"acme"}, Name: "y"})
	if !b.opens(known) {
		t.Fatal("the key does not work")
	}
	testkit.AsOwner(t, b.pool, `ALTER TABLE producer_secret RENAME TO gone`)
	if !b.opens(known) {
		t.Error("a key that was just found does not work")
	}
	if _, err := b.directory.Authenticate(t.Context(), other); !errors.Is(err, ingestapi.ErrKeysUnavailable) {
		t.Error(err)
	}
	if err := b.directory.Probe(t.Context()); err == nil {
		t.Error("the probe finds nothing wrong")
	}
	b.clock.Advance(time.Second)
	if _, err := b.directory.Authenticate(t.Context(), known); !errors.Is(err, ingestapi.ErrKeysUnavailable) {
		t.Error(err)
	}
	if b.opens("producer_service_nonsense") || b.opens("") {
		t.Error("what is no key opens")
	}
}
