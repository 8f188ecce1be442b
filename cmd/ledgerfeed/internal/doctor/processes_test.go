package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// connected waits until the check of processes says something: the server takes a moment
// to end a session.
func (p *patient) connected(level Level, text string) {
	p.t.Helper()
	testkit.Eventually(p.t, func() error {
		list, err := checkProcesses(p.t.Context(), p.examination)
		if err == nil && (len(list) != 1 || list[0].Level != level || !strings.Contains(list[0].Text+" → "+list[0].Do, text)) {
			err = fmt.Errorf("want %s with %q, got %+v", level, text, list)
		}
		return err
	})
}

// Roles that no process has are found, whichever processes have the others, also by the
// account of a service, which does not see what other accounts' sessions do.
func TestRolesThatAreGone(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	p.asService()
	p.connected(OK, "the roles api, project, deliver, console are connected")
	p.endService()
	p.connected(Error, "no process with the role api or project is connected to the database: readers get no answer, read models do not get new entries")
	p.connected(Error, "ledgerfeed serve --roles api,project")
	projecting := p.serve("project; of the operator's choice")
	p.connected(Error, "the role api is")
	p.serve("api console")
	p.connected(OK, "the roles api, project, console are connected")
	conn := testkit.Must(pgxpool.New(t.Context(), p.db.URL))(t)
	t.Cleanup(conn.Close)
	testkit.Must(conn.Exec(t.Context(), `SELECT workspace_create('acme', 'Acme', now())`))(t)
	testkit.Must(conn.Exec(t.Context(), `INSERT INTO webhook (workspace_id, webhook_id, url, created_at, secret) VALUES ('acme', 'wh_1', 'https://example.com', now(), '')`))(t)
	p.connected(Error, "the role deliver is connected to the database: webhooks are not sent")
	p.serve("deliver")
	p.connected(OK, "the roles api, project, deliver, console are connected")
	projecting()
	p.connected(Error, "the role project is")
	testkit.Must(conn.Exec(t.Context(), `UPDATE webhook SET state = 'off'`))(t)
	p.connected(Error, "the role project is")
}

// A process that ingests from a source which the command does not know may have dead letters.
func TestIngestsFromAnUnknownSource(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	p.finds("dead letters", OK, "LEDGERFEED_INGEST_URL is not set here")
	p.serve("ingest")
	p.finds("dead letters", Warning, "a process ingests, but this command does not know its source")
}

// The process of this machine is asked: it may be ready or not, hang, or be none.
func TestThisMachine(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	answer := `{"ready":true,"reasons":[]}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, answer) }))
	t.Cleanup(server.Close)
	hangs := testkit.Must(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = hangs.Close() })
	serving := strings.TrimPrefix(server.URL, "http://")
	for _, c := range []struct {
		listen, answer string
		level          Level
		text           string
	}{
		{serving, `{"ready":true,"reasons":[]}`, OK, "is ready"},
		{serving, `{"ready":false,"reasons":[{"role":"deliver","reason":"the keys do not fit"}]}`, Error, "is not ready: deliver: the keys do not fit"},
		{serving, `<html>`, Error, "does not answer as a serving process does"},
		{hangs.Addr().String(), "", Error, "takes connections and does not answer"},
		{"127.0.0.1:1", "", OK, "none serves at 127.0.0.1:1"},
	} {
		answer, p.env.Settings.AdminListen = c.answer, c.listen
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("the test does not wait for long"))
		list, err := checkThisMachine(ctx, p.examination)
		cancel()
		if err != nil || len(list) != 1 || list[0].Level != c.level || !strings.Contains(list[0].Text, c.text) || (list[0].Do == "") != (c.level == OK) {
			t.Errorf("%s, %s: %+v, %v", c.listen, c.answer, list, err)
		}
	}
}
