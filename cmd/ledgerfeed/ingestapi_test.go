package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// startIngestAPI starts a process that producers can append to, and returns its address.
func startIngestAPI(t *testing.T, url, roles string) (p *process, address string) {
	t.Helper()
	c := command(t, url, "serve", "--roles", roles, "--no-migrate")
	c.Env = append(c.Env, "LEDGERFEED_INGEST_LISTEN=127.0.0.1:0")
	p = startProcess(t, c)
	return p, strings.TrimSpace(p.await("for=ingest-api url="))
}

// producerKey makes a producer's key.
func producerKey(t *testing.T, url string, args ...string) (id, key string) {
	t.Helper()
	var made struct{ ID, Key string }
	out := succeed(t, url, append([]string{"producer", "create", "--name", "test", "--json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &made); err != nil {
		t.Fatal(err)
	}
	return made.ID, made.Key
}

// postEntries posts entries. The error is one of the connection.
func postEntries(ctx context.Context, address, key, body, idempotencyKey string) (status int, answer []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address+"/entries", strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Authorization", "Bearer "+key)
	if idempotencyKey != "" {
		r.Header.Set("Idempotency-Key", idempotencyKey)
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

// TestProducersOverHTTP: commands make and end keys, a running process learns of it within a second, and
// neither kind of key opens the other's door.
func TestProducersOverHTTP(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	for _, w := range []string{"acme", "beta"} {
		succeed(t, url, "workspace", "create", "--id", w, "--name", w)
	}
	serving, address := startIngestAPI(t, url, "api,ingest-api")
	id, key := producerKey(t, url, "--workspace", "acme,beta", "--types", "client.recorded")
	is := func(what string, want int, address, key string) {
		t.Helper()
		testkit.Eventually(t, func() error {
			status, text, err := postEntries(t.Context(), address, key, recorded("acme", "a")+recorded("beta", "b"), "")
			if err == nil && status != want {
				err = fmt.Errorf("%s: %d %s, want %d", what, status, text, want)
			}
			return err
		})
	}
	is("a new key", http.StatusOK, address, key)
	reads := newReader(t, url, apiOf(serving), "acme", "events:read")
	is("an API key", http.StatusUnauthorized, address, reads.key)
	if status, text := (reader{t, reads.base, key}).ask("/v1/me"); status != http.StatusUnauthorized {
		t.Errorf("a producer's key at the read API: %d %s", status, text)
	}
	rotated := strings.TrimSpace(succeed(t, url, "producer", "rotate", id))
	is("a replaced key", http.StatusUnauthorized, address, key)
	is("its successor", http.StatusOK, address, rotated)
	if text := succeed(t, url, "producer", "revoke", id); !strings.Contains(text, "revoked") || strings.Contains(text, rotated) {
		t.Error(text)
	}
	is("a revoked key", http.StatusUnauthorized, address, rotated)
	if text := succeed(t, url, "producer", "list"); !strings.Contains(text, id) || !strings.Contains(text, "acme,beta") || !strings.Contains(text, "client.recorded") {
		t.Error(text)
	}
	for _, c := range []struct{ args, want string }{
		{"producer create --workspace acme", "want --workspace and --name"}, {"producer create --workspace acme --name x --types client.record", "client.recorded"}, {"producer rotate " + id + " --overlap 25h", "0 to 24 hours"},
	} {
		if r := runCommand(t, command(t, url, strings.Fields(c.args)...)); r.code != cli.ExitUsage || !strings.Contains(r.errOut, c.want) {
			t.Errorf("%s: %+v", c.args, r)
		}
	}
	if code := serving.stop(); code != cli.ExitDone || strings.Contains(serving.log.String(), key) {
		t.Errorf("serve ended with %d:\n%s", code, serving.log)
	}
}

// httpProducer posts requests in turn, each until it is answered.
type httpProducer struct {
	t      *testing.T
	name   string
	next   int              // request
	places map[string]int64 // by id, as answered
}

// request is the body of the n-th request; every second one has no ids.
func (p *httpProducer) request(n int) (body, idempotencyKey string) {
	var b bytes.Buffer
	for i := range 5 {
		id := fmt.Sprintf(`"id":"%s-%d-%d",`, p.name, n, i)
		if n%2 == 1 {
			id, idempotencyKey = "", fmt.Sprintf("%s-%d", p.name, n)
		}
		fmt.Fprintf(&b, `{"workspace_id":"acme",%s"type":"client.recorded","data":{"client_id":"%s-%d-%d","name":"n"}}`+"\n", id, p.name, n, i)
	}
	return b.String(), idempotencyKey
}

// post posts requests up to last until one is not answered.
func (p *httpProducer) post(address, key string, last int) {
	for ; p.next < last; p.next++ {
		body, idempotencyKey := p.request(p.next)
		status, text, err := postEntries(p.t.Context(), address, key, body, idempotencyKey)
		if err != nil || status >= http.StatusInternalServerError {
			return // the process was killed: the request is sent again
		}
		var answer struct {
			Data []struct {
				ID       string
				Position int64
			}
		}
		if err := json.Unmarshal(text, &answer); err != nil || status != http.StatusOK || len(answer.Data) != 5 {
			p.t.Errorf("%s: %d %s", p.name, status, text)
			return
		}
		for _, row := range answer.Data {
			p.places[row.ID] = row.Position
		}
	}
}

// TestKilledWhileProducersPost: what was answered is in the log at the position that was answered, and
// a request that was sent again is there once, whenever the process was killed.
func TestKilledWhileProducersPost(t *testing.T) {
	t.Parallel()
	url := testkit.NewDatabase(t)
	succeed(t, url, "workspace", "create", "--id", "acme", "--name", "Acme")
	_, key := producerKey(t, url, "--workspace", "acme")
	var producers []*httpProducer
	for n := range 3 {
		producers = append(producers, &httpProducer{t: t, name: fmt.Sprintf("p%d", n), places: map[string]int64{}})
	}
	rng := rand.New(rand.NewPCG(3, 4))
	rounds := testkit.Scale(4, 60)
	const endless = 1 << 30
	for round := range rounds + 1 {
		serving, address := startIngestAPI(t, url, "ingest-api")
		last := endless
		if round == rounds { // the last one ends
			last = 0
			for _, p := range producers {
				last = max(last, p.next+2)
			}
		}
		var posting sync.WaitGroup
		for _, p := range producers {
			posting.Go(func() { p.post(address, key, last) })
		}
		if round < rounds {
			late, cancel := context.WithTimeout(t.Context(), time.Duration(rng.IntN(300))*time.Millisecond)
			<-late.Done()
			cancel()
			serving.kill()
		}
		posting.Wait()
	}
	want, sent := map[string]int64{}, 0
	for _, p := range producers {
		maps.Copy(want, p.places)
		sent += p.next * 5
	}
	pool := testkit.Must(pgxpool.New(t.Context(), url))(t)
	t.Cleanup(pool.Close)
	rows := testkit.Must(pool.Query(t.Context(), `SELECT id, position FROM event_log WHERE workspace_id = 'acme' ORDER BY position`))(t)
	defer rows.Close()
	n := 0
	for rows.Next() {
		var id string
		var position int64
		if err := rows.Scan(&id, &position); err != nil {
			t.Fatal(err)
		}
		n++
		if want[id] != position {
			t.Errorf("%s is at %d, answered was %d", id, position, want[id])
		}
	}
	if n != sent || len(want) != sent || sent == 0 {
		t.Errorf("the log has %d entries, %d were sent and %d answered", n, sent, len(want))
	}
}
