package ingestapi

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/jackc/pgx/v5"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/ledgerfeed/ledgerfeed/internal/brand"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

func gzipped(t testing.TB, body string) io.Reader {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	testkit.Must(z.Write([]byte(body)))(t)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

func zstandard(t testing.TB, body string) io.Reader {
	t.Helper()
	z := testkit.Must(zstd.NewWriter(nil))(t)
	return bytes.NewReader(z.EncodeAll([]byte(body), nil))
}

// TestARefusedConnection: it is answered as the description says, before any request was read.
func TestARefusedConnection(t *testing.T) {
	t.Parallel()
	answer := testkit.Must(http.ReadResponse(bufio.NewReader(bytes.NewReader(RefuseConnection("192.0.2.1:1"))), nil))(t)
	defer answer.Body.Close()
	var p struct {
		Code      string `json:"code"`
		RequestID string `json:"request_id"`
	}
	testkit.Must(0, json.NewDecoder(answer.Body).Decode(&p))(t)
	if answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("Content-Type") != "application/problem+json" || answer.Header.Get("Retry-After") != "10" || p.Code != codeUnavailable || p.RequestID == "" {
		t.Errorf("%d, %v, %+v", answer.StatusCode, answer.Header, p)
	}
}

// TestRequests: what each request is answered with, and what it leaves in the log.
func TestRequests(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	key, narrow := s.key("acme,globex"), s.key("acme", "client.recorded")
	apiKey := testkit.Must(access.NewFormat(brand.Brand{}).Generate(strings.NewReader(strings.Repeat("x", 400))))(t).Reveal()
	big := `{"workspace_id":"acme","id":"big","type":"client.recorded","data":{"client_id":"c","name":"` + strings.Repeat("x", 70_000) + `"}}`
	many := strings.Repeat(sent("acme", "a"), MaxEntries+1)
	for _, c := range []struct {
		name, key, query string
		body             io.Reader
		header           []string
		status           int
		want             string // in the answer
	}{
		{"one line", key, "", text(sent("acme", "a")), nil, 200, `{"data":[{"line":1,"id":"a","position":1,"result":"appended"}],"appended":1,"skipped":0,"positions":{"acme":1}}`},
		{"again", key, "", text(sent("acme", "a")), nil, 200, `"position":1,"result":"skipped"}],"appended":0,"skipped":1`},
		{"blank lines, CRLF, a byte order mark", key, "", text("\ufeff\r\n", strings.TrimSpace(sent("acme", "b")), "\r\n\n", sent("acme", "c")), nil, 200, `[{"line":2,"id":"b","position":2,"result":"appended"},{"line":4,"id":"c","position":3`},
		{"an array", key, "", text(" [", sent("acme", "d"), ",", sent("globex", "a"), "]\n"), nil, 200, `{"line":2,"id":"a","position":1,"result":"appended"}],"appended":2,"skipped":0,"positions":{"acme":4,"globex":1}}`},
		{"gzip", key, "", gzipped(t, sent("acme", "e")), []string{"Content-Encoding", "gzip"}, 200, `"position":5`},
		{"zstd", key, "", zstandard(t, sent("acme", "f")), []string{"Content-Encoding", "ZSTD"}, 200, `"position":6`},
		{"a dry run", key, "?dry_run=true", text(sent("acme", "a"), sent("acme", "g")), nil, 200, `[{"line":1,"id":"a","position":null,"result":"would_skip"},{"line":2,"id":"g","position":null,"result":"would_append"}],"appended":1,"skipped":1,"dry_run":true}`},
		{"a person's id", key, "?dry_run=true", text(sent("acme", "g"), `{"workspace_id":"acme","id":"h","type":"invoice.sent","data":{"invoice_id":"i","invoice_number":"jane@example.com","client_id":"c"}}`), nil, 200, `"warnings":["1 line has an id or a number that looks like a name, an email address or a telephone number; the first is line 2.`},
		{"other content", key, "", text(sent("acme", "g"), strings.Replace(sent("acme", "a"), "i-a", "i-x", 1), strings.Replace(sent("globex", "a"), "i-a", "i-x", 1)), nil, 409, `{"line":2,"field":"id","message":"entry a refused: the workspace holds this id with other content"},{"line":3,"field":"id"`},
		{"a dry run of other content", key, "?dry_run=true", text(strings.Replace(sent("acme", "a"), "i-a", "i-x", 1)), nil, 409, "the log refuses entries"},
		{"times", key, "", text(strings.Replace(sent("acme", "g"), `"type"`, `"created_at":"2001-01-01T00:00:00Z","type"`, 1), strings.Replace(sent("acme", "h"), `"type"`, `"created_at":"2999-01-01T00:00:00Z","type"`, 1)), nil, 409, `{"line":2,"field":"created_at","message":"entry h refused: created_at is more than 5 minutes ahead`},
		{"faults of two lines", key, "", text(sent("acme", "g"), `{"workspace_id":"acme","id":"h","type":"invoice.sent","data":{"client_id":7}}`+"\n", "nonsense"), nil, 400, `"errors":[{"line":2,"field":"data.client_id","message":"data.client_id has the wrong form`},
		{"a fault that is no field's", key, "", text(sent("acme", "g"), "nonsense"), nil, 400, `{"line":2,"message":"want an entry: one JSON object"}`},
		{"an unknown type", key, "", text(strings.Replace(sent("acme", "g"), "invoice.sent", "invoice.send", 1)), nil, 400, "invoice.sent"},
		{"no id", key, "", text(sent("acme", "")), nil, 400, `"field":"id","message":"id is missing`},
		{"a made id", key, "", text(sent("acme", "")), []string{"Idempotency-Key", "k1"}, 200, `"position":7,"result":"appended"`},
		{"a made id again", key, "", text("[", sent("acme", ""), "]"), []string{"Idempotency-Key", "k1"}, 200, `"position":7,"result":"skipped"`},
		{"another request with the same Idempotency-Key", key, "", text(strings.Replace(sent("acme", ""), "i-", "i-x", 1)), []string{"Idempotency-Key", "k1"}, 409, "other content"},
		{"a stored form", key, "", text(`{"workspace_id":"acme","id":"g","type":"client.recorded","stored":{"client_id":"c","~":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}}`), nil, 400, "stored in place of data"},
		{"another workspace", narrow, "", text(sent("globex", "g")), nil, 403, `"code":"permission_missing"`},
		{"another workspace's line", narrow, "", text(sent("globex", "g")), nil, 403, `{"line":1,"field":"workspace_id","message":"this key may not append to the workspace \"globex\"`},
		{"another type", narrow, "", text(sent("acme", "g")), nil, 403, `{"line":1,"field":"type","message":"this key may only append client.recorded"}`},
		{"no entries", key, "", text(" \n\n"), nil, 400, "has no entries"},
		{"an empty array", key, "", text("[]"), nil, 400, "has no entries"},
		{"half an array", key, "", text("[", sent("acme", "g")), nil, 400, "the array does not end"},
		{"more than an array", key, "", text("[", sent("acme", "g"), "] 7"), nil, 400, "something follows the array"},
		{"wrong UTF-8", key, "", text(strings.Replace(sent("acme", "g"), "i-g", "i-\xff", 1)), nil, 400, `"line":1`},
		{"UTF-16", key, "", text("\xff\xfe{\x00"), nil, 400, "it is UTF-16: want UTF-8"},
		{"a long line", key, "", text(big), nil, 400, "longer than 65536 bytes"},
		{"too many lines", key, "", text(many), nil, 413, `"code":"too_large"`},
		{"a long array", key, "", text("[", strings.TrimSuffix(strings.Repeat(sent("acme", "a")+",", MaxEntries+1), ","), "]"), nil, 413, "at most 1000 entries"},
		{"a large body", key, "", text(strings.Repeat("\n", MaxBody+1)), nil, 413, "8388608 bytes"},
		{"a bomb of gzip", key, "", gzipped(t, strings.Repeat("\n", 40*MaxBody)), []string{"Content-Encoding", "gzip"}, 413, "also after it was decompressed"},
		{"a bomb of zstd", key, "", zstandard(t, strings.Repeat("\n", 40*MaxBody)), []string{"Content-Encoding", "zstd"}, 413, "also after it was decompressed"},
		{"no gzip", key, "", text(sent("acme", "g")), []string{"Content-Encoding", "gzip"}, 400, "is not what Content-Encoding says"},
		{"no zstd", key, "", text(sent("acme", "g")), []string{"Content-Encoding", "zstd"}, 400, "is not what Content-Encoding says"},
		{"another encoding", key, "", text(sent("acme", "g")), []string{"Content-Encoding", "br"}, 415, "gzip, zstd, identity"},
		{"a parameter", key, "?dryrun=true", text(sent("acme", "g")), nil, 400, `{"field":"dryrun","message":"is not a parameter; the only one is dry_run"}`},
		{"a wrong parameter", key, "?dry_run=yes", text(sent("acme", "g")), nil, 400, `want true or false`},
		{"a wrong Idempotency-Key", key, "", text(sent("acme", "")), []string{"Idempotency-Key", "two words"}, 400, "Idempotency-Key"},
		{"a key in the address", key, "?key=" + key, text(sent("acme", "g")), nil, 400, `"code":"key_in_url"`},
		{"no key", "", "", text(sent("acme", "g")), nil, 401, `"code":"unauthorized"`},
		{"an API key", apiKey, "", text(sent("acme", "g")), nil, 401, "API keys do not append"},
		{"an unknown key", key[:len(key)-1] + "x", "", text(sent("acme", "g")), nil, 401, `"code":"unauthorized"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := s.post(c.key, c.query, c.body, c.header...)
			if g.status != c.status || !strings.Contains(g.text, c.want) && !strings.Contains(g.text, strings.ToUpper(c.want[:1])+c.want[1:]) {
				t.Errorf("%d %s\nwant %d %s", g.status, g.text, c.status, c.want)
			}
			want := "application/problem+json"
			if c.status == http.StatusOK {
				want = "application/json"
			}
			if g.header.Get("Content-Type") != want || g.header.Get("X-Request-Id") == "" || strings.Contains(g.text, key[len("producer_service_")+9:]) {
				t.Errorf("%v %s", g.header, g.text)
			}
			if position := g.header.Get("Log-Position"); (position != "") != (len(g.Positions) == 1) || len(g.Positions) == 1 && position != strconv.FormatInt(g.Positions["acme"], 10) {
				t.Errorf("Log-Position %q, positions %v", position, g.Positions)
			}
		})
	}
	if held := s.positions("acme"); len(held) != 7 || held["g"] != 0 || held["h"] != 0 {
		t.Errorf("the log has %v", held)
	}
	if strings.Contains(s.logged.String(), key[len("producer_service_")+9:]) {
		t.Error("a key is in the log")
	}
}

// TestOtherPaths: what needs no key, and what there is not.
func TestOtherPaths(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	for _, c := range []struct {
		method, path string
		status       int
		want         string
	}{
		{"GET", "/entries", 405, "This path has other methods: POST."}, {"POST", "/openapi.json", 405, "GET, HEAD"}, {"GET", "/v1/me", 404, "Entries go to /entries"}, {"OPTIONS", "*", 404, "not_found"},
		{"GET", "/docs/entries.schema.json", 200, "urn:ledgerfeed:entries"}, {"GET", "/openapi.json", 200, "appendEntries"}, {"GET", "/docs/errors/409", 200, "refused_entries"}, {"HEAD", "/docs/errors/503", 200, ""},
	} {
		r := testkit.Must(http.NewRequestWithContext(t.Context(), c.method, "http://"+s.address+"/", http.NoBody))(t)
		r.URL.Path = c.path
		if c.path == "*" {
			r.URL.Opaque = "*"
		}
		resp := testkit.Must(http.DefaultTransport.RoundTrip(r))(t)
		body := testkit.Must(io.ReadAll(resp.Body))(t)
		_ = resp.Body.Close()
		if resp.StatusCode != c.status || !strings.Contains(string(body), c.want) {
			t.Errorf("%s %s: %d %s", c.method, c.path, resp.StatusCode, body)
		}
	}
}

// TestTheDocument: the OpenAPI document is valid, and has the statuses and codes that there are, and
// the limits.
func TestTheDocument(t *testing.T) {
	t.Parallel()
	doc := testkit.Must(openapi3.NewLoader().LoadFromData(document))(t)
	if err := doc.Validate(t.Context()); err != nil {
		t.Error(err)
	}
	post := doc.Paths.Value(entriesPath).Post
	var codes []string
	for _, m := range meanings() {
		codes = append(codes, m.code)
		if m.status != http.StatusNotFound && m.status != http.StatusMethodNotAllowed && post.Responses.Status(m.status) == nil {
			t.Errorf("the document has no %d", m.status)
		}
	}
	var listed []string
	text := testkit.Must(json.Marshal(doc.Components.Schemas["Problem"].Value.Properties["code"].Value.Extensions["x-extensible-enum"]))(t)
	if err := json.Unmarshal(text, &listed); err != nil || !slices.Equal(listed, codes) {
		t.Errorf("%v, want %v (%v)", listed, codes, err)
	}
	if n := post.RequestBody.Value.Content["application/json"].Schema.Value.MaxItems; n == nil || *n != MaxEntries {
		t.Errorf("the document takes %v entries", n)
	}
}

// TestSlowBodies: a body that does not come is given up, and holds nothing of others meanwhile.
func TestSlowBodies(t *testing.T) {
	t.Parallel()
	s := newStand(t, func(server *http.Server) { server.ReadTimeout = time.Second })
	reader, writer := io.Pipe()
	t.Cleanup(func() { _ = writer.Close() })
	g := s.post(s.key("acme"), "", reader)
	if g.status != http.StatusRequestTimeout || g.Code != codeTooSlow {
		t.Errorf("%d %s", g.status, g.text)
	}
}

// TestAFloodHurtsItself: a key whose requests take all that it may have is refused; another key is
// answered.
func TestAFloodHurtsItself(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	flood, other := s.key("acme"), s.key("acme")
	reader, writer := io.Pipe()
	t.Cleanup(func() { _ = writer.Close() })
	ended := make(chan got, 2)
	for range 2 { // bodies without an end, of unknown size
		go func() {
			g, _ := s.tryPost(flood, "", reader)
			ended <- g
		}()
	}
	testkit.Eventually(t, func() error {
		families := testkit.Must(s.metrics.Gather())(t)
		for _, f := range families {
			if f.GetName() == "ledgerfeed_ingest_api_bytes" && f.GetMetric()[0].GetGauge().GetValue() == 2*MaxBody {
				return nil
			}
		}
		return fmt.Errorf("the bodies are not under way: %v", families)
	})
	g := s.post(flood, "", text(sent("acme", "a")))
	if g.status != http.StatusTooManyRequests || g.Code != codeBusy || g.header.Get("Retry-After") != "1" {
		t.Errorf("%d %v %s", g.status, g.header, g.text)
	}
	for range 5 {
		if g := s.post(other, "", text(sent("acme", "b"))); g.status != http.StatusOK {
			t.Errorf("the other key: %d %s", g.status, g.text)
		}
	}
	_ = writer.Close()
	for range 2 {
		testkit.Receive(t, ended, "the end of a body")
	}
	if g := s.post(flood, "", text(sent("acme", "a"))); g.status != http.StatusOK {
		t.Errorf("afterwards: %d %s", g.status, g.text)
	}
}

// TestALockedWorkspaceHoldsNobodyElse: while another transaction holds a workspace, requests with the
// same key to another workspace are answered, and those to the locked one afterwards.
func TestALockedWorkspaceHoldsNobodyElse(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	key := s.key("acme,globex")
	holder := testkit.OwnerConn(t, s.pool)
	tx := testkit.Must(holder.Begin(t.Context()))(t)
	testkit.Must(tx.Exec(t.Context(), `SELECT FROM log_head WHERE workspace_id = 'acme' FOR UPDATE`))(t)
	ended := make(chan got, 5)
	for n := range cap(ended) {
		go func() {
			g, _ := s.tryPost(key, "", text(sent("acme", fmt.Sprintf("a%d", n)), sent("acme", fmt.Sprintf("b%d", n))))
			ended <- g
		}()
	}
	testkit.Eventually(t, func() error { return testkit.LockAwaited(t, s.pool, 1) })
	for n := range 5 {
		if g := s.post(key, "", text(sent("globex", fmt.Sprintf("a%d", n)), sent("globex", fmt.Sprintf("b%d", n)))); g.status != http.StatusOK {
			t.Errorf("the other workspace: %d %s", g.status, g.text)
		}
	}
	if g, waits := testkit.Offered(ended); waits {
		t.Errorf("the locked workspace: %d %s", g.status, g.text)
	}
	if err := tx.Rollback(t.Context()); err != nil && err != pgx.ErrTxClosed { //nolint:errorlint // exactly this
		t.Fatal(err)
	}
	for range cap(ended) {
		if g := testkit.Receive(t, ended, "an answer about the workspace that was locked"); g.status != http.StatusOK {
			t.Errorf("afterwards: %d %s", g.status, g.text)
		}
	}
	if n := len(s.positions("acme")); n != 10 {
		t.Errorf("%d entries", n)
	}
}

// TestALockThatStays: what is not appended in time is refused with the time to wait.
func TestALockThatStays(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	tx := testkit.Must(testkit.OwnerConn(t, s.pool).Begin(t.Context()))(t)
	testkit.Must(tx.Exec(t.Context(), `SELECT FROM log_head WHERE workspace_id = 'acme' FOR UPDATE`))(t)
	g := s.post(s.key("acme"), "", text(sent("acme", "a"), sent("acme", "b")))
	if g.status != http.StatusServiceUnavailable || g.Code != codeUnavailable || g.header.Get("Retry-After") == "" || !strings.Contains(g.Detail, "Nothing was appended") {
		t.Errorf("%d %s", g.status, g.text)
	}
}
