package access

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

func TestCreate(t *testing.T) {
	t.Parallel()
	b := setup(t)
	made, secret := b.create(t, func(n *NewKey) {
		n.Permissions = PermissionsOf(PayRead, InvoicesRead)
		n.ExpiresAt = start.Add(time.Hour)
	})
	want := Key{
		ID: made.ID, WorkspaceID: "acme", WorkspaceName: "Acme Inc.", Name: "Reporting", Prefix: secret.Prefix(),
		Permissions: PermissionsOf(InvoicesRead, PayRead), RateLimit: 120, CreatedAt: start, ExpiresAt: start.Add(time.Hour),
	}
	if made.Key != want || !strings.HasPrefix(made.ID, "key_") || made.State(start) != Live {
		t.Errorf("made %+v; want %+v", made, want)
	}
	stored, err := b.store.Get(t.Context(), "acme", made.ID)
	if err != nil || !reflect.DeepEqual(stored, made) {
		t.Errorf("stored %+v, %v; want %+v", stored, err, made)
	}
}

func TestCreateRefuses(t *testing.T) {
	t.Parallel()
	b := setup(t)
	good := NewKey{WorkspaceID: "acme", Name: "x", Permissions: PermissionsOf(InvoicesRead)}
	for name, c := range map[string]struct {
		change func(*NewKey)
		want   string
	}{
		"no name":        {func(n *NewKey) { n.Name = "" }, "name: must not be empty"},
		"spaces around":  {func(n *NewKey) { n.Name = " x" }, "name: must not begin or end with a space"},
		"long name":      {func(n *NewKey) { n.Name = strings.Repeat("é", 101) }, "name: must have at most 100 characters"},
		"control":        {func(n *NewKey) { n.Name = "a\x00b" }, "name: must not hold control characters"},
		"no UTF-8":       {func(n *NewKey) { n.Name = "\xff" }, "name: must be UTF-8"},
		"margin alone":   {func(n *NewKey) { n.Permissions = PermissionsOf(MarginRead) }, "scopes: margin:read needs pay:read on the same key"},
		"expires now":    {func(n *NewKey) { n.ExpiresAt = start }, "expires: must be in the future"},
		"negative limit": {func(n *NewKey) { n.RateLimit = -1 }, "rate-limit: must be 1 to 1000000 requests a minute"},
		"workspace":      {func(n *NewKey) { n.WorkspaceID = "nobody" }, `there is no workspace "nobody"`},
		"all at once": {func(n *NewKey) { *n = NewKey{RateLimit: 1_000_001} },
			"name: must not be empty\nscopes: name at least one permission; allowed are " + allowedList() +
				"\nrate-limit: must be 1 to 1000000 requests a minute"},
	} {
		n := good
		c.change(&n)
		if _, _, err := b.store.Create(t.Context(), n); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v; want %s", name, err, c.want)
		}
	}
	var unknown *domain.UnknownWorkspaceError
	_, _, err := b.store.Create(t.Context(), NewKey{WorkspaceID: "nobody", Name: "x", Permissions: PermissionsOf(InvoicesRead)})
	if !errors.As(err, &unknown) {
		t.Errorf("unknown workspace: %T", err)
	}
	if list, err := b.store.List(t.Context(), "acme"); err != nil || list == nil || len(list) != 0 {
		t.Errorf("refused keys were made: %v, %v", list, err)
	}
}

func TestOnlyHashesAreStored(t *testing.T) {
	t.Parallel()
	b := setup(t)
	made, first := b.create(t)
	second := b.rotate(t, made.ID, time.Hour)
	var dump string
	const everything = `SELECT (SELECT json_agg(k)::text FROM api_key k) || (SELECT json_agg(s)::text FROM api_key_secret s)`
	if err := b.pool.QueryRow(t.Context(), everything).Scan(&dump); err != nil {
		t.Fatal(err)
	}
	for _, secret := range []Secret{first, second} {
		hash := secret.Hash()
		if !strings.Contains(dump, hex.EncodeToString(hash[:])) {
			t.Errorf("the hash of %s is not in %s", secret, dump)
		}
		if strings.Contains(dump, secret.Reveal()[len(secret.Prefix())+1:]) {
			t.Errorf("the secret of %s is in the database", secret)
		}
	}
}

// At most a hundred live keys can be made, however many transactions make them at once,
// and a key that is no longer live makes room for another.
func TestHundredLiveKeys(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(t, func(n *NewKey) { n.ExpiresAt = start.Add(time.Minute) })
	var mu sync.Mutex
	var made []*Record
	var refused int
	var wg sync.WaitGroup
	for worker := range 6 {
		wg.Go(func() {
			for i := range 20 {
				n := NewKey{WorkspaceID: "acme", Name: fmt.Sprintf("%d/%d", worker, i), Permissions: PermissionsOf(InvoicesRead)}
				record, _, err := b.store.Create(t.Context(), n)
				mu.Lock()
				var tooMany *TooManyKeysError
				switch {
				case err == nil:
					made = append(made, record)
				case errors.As(err, &tooMany):
					refused++
				default:
					t.Error(err)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(made) != MaxLiveKeys-1 || refused != 120-len(made) {
		t.Fatalf("made %d and refused %d", len(made), refused)
	}
	b.revoke(t, made[0].ID)
	b.create(t)
	b.clock.Advance(time.Minute)
	b.create(t) // in the place of the one that expired
	n := NewKey{WorkspaceID: "acme", Name: "one more", Permissions: PermissionsOf(InvoicesRead)}
	if _, _, err := b.store.Create(t.Context(), n); err == nil {
		t.Error("a 101st live key was made")
	}
	n.WorkspaceID = "globex"
	if _, _, err := b.store.Create(t.Context(), n); err != nil {
		t.Errorf("another workspace is full: %v", err)
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var want []string
	for range 3 {
		made, _ := b.create(t)
		want = append(want, made.ID)
		b.clock.Advance(time.Second)
	}
	b.create(t, func(n *NewKey) { n.WorkspaceID = "globex" })
	b.revoke(t, want[1])
	list, err := b.store.List(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range list {
		got = append(got, r.ID)
	}
	if !reflect.DeepEqual(got, want) || list[1].State(b.clock.Now()) != Revoked || list[2].State(b.clock.Now()) != Live {
		t.Errorf("listed %v; want %v", got, want)
	}
	var unknown *domain.UnknownWorkspaceError
	if _, err := b.store.List(t.Context(), "nobody"); !errors.As(err, &unknown) {
		t.Errorf("list of an unknown workspace: %v", err)
	}
}

func TestRotateKeepsTheKey(t *testing.T) {
	t.Parallel()
	b := setup(t)
	made, first := b.create(t, func(n *NewKey) { n.RateLimit = 600; n.ExpiresAt = start.Add(48 * time.Hour) })
	b.clock.Advance(time.Minute)
	rotated, second, err := b.store.Rotate(t.Context(), "acme", made.ID, 24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	want := *made
	want.Prefix = second.Prefix()
	want.Replaced = []ReplacedSecret{{Prefix: first.Prefix(), CreatedAt: start, EndsAt: start.Add(24*time.Hour + time.Minute)}}
	if !reflect.DeepEqual(*rotated, want) {
		t.Errorf("rotated %+v; want %+v", rotated, want)
	}
	// A second rotation never extends the overlap of the first.
	b.clock.Advance(23 * time.Hour)
	rotated, third, err := b.store.Rotate(t.Context(), "acme", made.ID, 2*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	want.Prefix = third.Prefix()
	want.Replaced = []ReplacedSecret{
		{Prefix: second.Prefix(), CreatedAt: start.Add(time.Minute), EndsAt: start.Add(25*time.Hour + time.Minute)},
		{Prefix: first.Prefix(), CreatedAt: start, EndsAt: start.Add(24*time.Hour + time.Minute)},
	}
	if !reflect.DeepEqual(*rotated, want) {
		t.Errorf("rotated again %+v; want %+v", rotated, want)
	}
}

func TestChangesOfWhatDoesNotExistOrLive(t *testing.T) {
	t.Parallel()
	b := setup(t)
	revoked, _ := b.create(t)
	expired, _ := b.create(t, func(n *NewKey) { n.ExpiresAt = start.Add(time.Minute) })
	live, _ := b.create(t)
	b.revoke(t, revoked.ID)
	b.clock.Advance(time.Minute)
	for _, c := range []struct {
		name   string
		change func(workspace, key string) error
	}{
		{"rotate", func(w, k string) error { _, _, err := b.store.Rotate(t.Context(), w, k, 0); return err }},
		{"limit", func(w, k string) error { _, err := b.store.SetRateLimit(t.Context(), w, k, 7); return err }},
		{"revoke", func(w, k string) error { _, err := b.store.Revoke(t.Context(), w, k); return err }},
	} {
		name, change := c.name, c.change
		var unknown *UnknownKeyError
		for _, at := range [][2]string{{"acme", "key_nothing"}, {"globex", live.ID}, {"nobody", live.ID}} {
			if err := change(at[0], at[1]); !errors.As(err, &unknown) || unknown.KeyID != at[1] {
				t.Errorf("%s of %v: %v", name, at, err)
			}
		}
		var notLive *NotLiveError
		for state, id := range map[State]string{Revoked: revoked.ID, Expired: expired.ID} {
			err := change("acme", id)
			if name == "revoke" {
				if err != nil {
					t.Errorf("revoke of a key that is %s: %v", state, err)
				}
			} else if !errors.As(err, &notLive) || notLive.State != state {
				t.Errorf("%s of a key that is %s: %v", name, state, err)
			}
		}
	}
	if r, err := b.store.Get(t.Context(), "acme", revoked.ID); err != nil || !r.RevokedAt.Equal(start) {
		t.Errorf("after a second revocation: %+v, %v", r, err)
	}
	var invalid *InvalidError
	for _, overlap := range []time.Duration{-1, 24*time.Hour + 1} {
		if _, _, err := b.store.Rotate(t.Context(), "acme", live.ID, overlap); !errors.As(err, &invalid) {
			t.Errorf("rotate with overlap %v: %v", overlap, err)
		}
	}
	for _, limit := range []int{0, -1, MaxRateLimit + 1} {
		if _, err := b.store.SetRateLimit(t.Context(), "acme", live.ID, limit); !errors.As(err, &invalid) {
			t.Errorf("rate limit %d: %v", limit, err)
		}
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	b := setup(t)
	made, secret := b.create(t, func(n *NewKey) { n.WorkspaceID = "globex" })
	for _, given := range []string{made.ID, made.Prefix} {
		if workspaceID, id, err := b.store.Find(t.Context(), given); err != nil || workspaceID != "globex" || id != made.ID {
			t.Errorf("%s: got %q, %q, %v", given, workspaceID, id, err)
		}
	}
	var unknown *UnknownKeyError
	for _, given := range []string{"key_nothing", "", made.Prefix[:len(made.Prefix)-1], secret.Reveal()} {
		if _, _, err := b.store.Find(t.Context(), given); !errors.As(err, &unknown) || given == secret.Reveal() && strings.Contains(err.Error(), made.Prefix) {
			t.Errorf("%s: got %v", given, err)
		}
	}
}

// Concurrent changes of keys and workspace names do not deadlock, and each takes a
// revision of its own.
func TestConcurrentChanges(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var ids []string
	for range 4 {
		made, _ := b.create(t)
		ids = append(ids, made.ID)
	}
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for i := range 10 {
				var err error
				switch worker {
				case 0:
					_, err = b.store.SetRateLimit(t.Context(), "acme", ids[i%4], 100+i)
				case 1:
					_, _, err = b.store.Rotate(t.Context(), "acme", ids[(i+1)%4], time.Hour)
				default:
					err = b.rename(t.Context(), "acme", fmt.Sprintf("Acme %d", i))
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	var revision, highest int
	const read = `SELECT revision, (SELECT max(revision) FROM api_key) FROM access_revision`
	if err := b.pool.QueryRow(t.Context(), read).Scan(&revision, &highest); err != nil {
		t.Fatal(err)
	}
	if revision != 40 || highest != 40 {
		t.Errorf("revision %d, highest of a key %d; want 40", revision, highest)
	}
}

// rename does what the command "workspace set" does.
func (b *bundle) rename(ctx context.Context, workspaceID, name string) error {
	return pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `UPDATE workspace SET name = $2 WHERE workspace_id = $1`, workspaceID, name); err != nil {
			return err
		}
		return BumpRevision(ctx, tx, workspaceID)
	})
}

// Every table and column has a comment.
func TestEverythingIsCommented(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const bare = `SELECT c.relname || coalesce('.' || a.attname, '')
		FROM pg_class c
		LEFT JOIN LATERAL (
			SELECT attname, attnum FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped
			UNION ALL SELECT NULL, 0
		) a ON true
		WHERE c.relname = ANY ('{api_key,api_key_secret,access_revision}') AND col_description(c.oid, a.attnum) IS NULL
			AND (a.attnum > 0 OR obj_description(c.oid) IS NULL)`
	rows, err := b.pool.Query(t.Context(), bare)
	if err != nil {
		t.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(names) > 0 {
		t.Errorf("without a comment: %v, %v", names, err)
	}
}
