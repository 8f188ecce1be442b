package readapi_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/answer"
)

// attempt is a request before it is made.
type attempt struct {
	method, path, key, address string
	permission                 access.Permission
	query                      []string
	headers                    []string
}

// fault is something that is wrong with a request, and its answer unless an earlier check
// fails.
type fault struct {
	name   string
	status int
	detail string // part of the problem's detail
	make   func(*attempt)
	lifted func(*attempt) bool // does not apply to this request; nil: always does
}

// faultyKeys are keys that may do less than good.
type faultyKeys struct {
	good, exhausted, unknown, revoked, expired string

	poor    map[access.Permission]string // all permissions but one
	blocked string                       // an address with too many refused keys
}

func (s *stand) faultyKeys(t testing.TB) *faultyKeys {
	t.Helper()
	k := &faultyKeys{
		good: s.key("acme", allPermissions()...), exhausted: s.keyLimited("acme", 1, allPermissions()...),
		unknown: testkit.Must(s.format.Generate(bytes.NewReader(bytes.Repeat([]byte{1, 2, 3}, 100))))(t).Reveal(),
		poor:    map[access.Permission]string{}, blocked: "203.0.113.9",
	}
	s.get("/v1/me", k.exhausted)
	record, revoked, err := s.store.Create(t.Context(), access.NewKey{WorkspaceID: "acme", Name: "x", Permissions: access.PermissionsOf(allPermissions()...)})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Must(s.store.Revoke(t.Context(), "acme", record.ID))(t)
	_, expired, err := s.store.Create(t.Context(), access.NewKey{
		WorkspaceID: "acme", Name: "x", Permissions: access.PermissionsOf(allPermissions()...), ExpiresAt: s.clock.Now().Add(time.Millisecond),
	})
	if err != nil {
		t.Fatal(err)
	}
	s.clock.Advance(time.Millisecond)
	k.revoked, k.expired = revoked.Reveal(), expired.Reveal()
	for range access.RefusedKeysPerMinute + 1 {
		s.get("/v1/me", "nonsense", "X-Forwarded-For", k.blocked)
	}
	for _, p := range endpoints() {
		if p != "" && k.poor[p] == "" {
			k.poor[p] = s.key("acme", without(p)...)
		}
	}
	return k
}

// use sends another key, unless an earlier fault has chosen one.
func (k *faultyKeys) use(key string) func(*attempt) {
	return func(a *attempt) {
		if a.key == k.good {
			a.key = key
		}
	}
}

// fromBlocked is use from an address that is slowed down.
func (k *faultyKeys) fromBlocked(key string) func(*attempt) {
	return func(a *attempt) {
		a.address = k.blocked
		k.use(key)(a)
	}
}

// header sends a header.
func header(name, value string) func(*attempt) {
	return func(a *attempt) { a.headers = append(a.headers, name, value) }
}

// query adds to the query.
func query(text string) func(*attempt) {
	return func(a *attempt) { a.query = append(a.query, text) }
}

// isOptions is for faults that OPTIONS is not checked for.
func isOptions(a *attempt) bool { return a.method == http.MethodOptions }

// faultsInOrder are the steps of docs/contract/decisions.md, "Requests", each in several ways.
func faultsInOrder(k *faultyKeys) []fault {
	list := []fault{
		{"headers that are too large", 431, "longer than", header("X-Large", strings.Repeat("x", answer.MaxHeaderBytes)), nil},
		{"another method", 405, "read only", func(a *attempt) { a.method = http.MethodPost }, nil},
		{"a parameter for keys", 400, "replace the key", query("api_key=1"), nil},
		{"a key as a value", 400, "replace the key", query("limit=" + k.unknown), nil},
		{"a key in the path", 400, "replace the key", func(a *attempt) { a.path += "/" + k.unknown }, nil},
		{"a malformed key from a blocked address", 429, "refused keys", k.fromBlocked("nonsense"), nil},
		{"no key from a blocked address", 429, "refused keys", k.fromBlocked(""), nil},
		{"a revoked key from a blocked address", 429, "refused keys", k.fromBlocked(k.revoked), nil},
	}
	for name, key := range map[string]string{"no": "", "a malformed": "nonsense", "an unknown": k.unknown, "a revoked": k.revoked, "an expired": k.expired} {
		list = append(list, fault{name + " key", 401, "valid API key", k.use(key), nil})
	}
	list = append(list,
		fault{"too many requests", 429, "1 request a minute", k.use(k.exhausted), nil},
		fault{"a slash at the end", 404, "nothing at this path", func(a *attempt) { a.path += "/" }, nil},
		fault{"an escaped slash", 404, "nothing at this path", func(a *attempt) { a.path = strings.Replace(a.path, "/v1/", "/v1%2F", 1) }, nil},
		fault{"another version", 404, "nothing at this path", func(a *attempt) { a.path = "/v2" + a.path[len("/v1"):] }, nil},
		fault{
			"no permission", 403, "This key lacks the permission ", func(a *attempt) {
				if a.permission != "" {
					k.use(k.poor[a.permission])(a)
				}
			}, func(a *attempt) bool { return isOptions(a) || a.permission == "" },
		},
	)
	for _, wrong := range []string{"nonsense=1", "limit=1&limit=1", "limit=", "limit=0", "limit=%zz", "cursor=x"} {
		list = append(list, fault{"the query " + wrong, 400, "wrong", query(wrong), isOptions})
	}
	return append(list, fault{
		"an unknown id", 404, "with this id", func(a *attempt) { a.path = strings.Replace(a.path, "_1", "_2", 1) },
		func(a *attempt) bool { return isOptions(a) || !strings.Contains(a.path, "_2") },
	})
}
