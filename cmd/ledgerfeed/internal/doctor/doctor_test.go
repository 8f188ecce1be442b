package doctor

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/operate"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/settings"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/migrations"
)

func TestMain(m *testing.M) { testkit.Main(m, migrations.Up) }

// patient is an installation that a test makes ill.
type patient struct {
	*examination

	t          *testing.T
	endService func()
}

func newPatient(t *testing.T, set ...string) *patient {
	t.Helper()
	address := testkit.NewDatabase(t)
	env := &operate.Env{Env: cli.Env{Clock: time.Now, Logger: testkit.Discard()}}
	env.Settings = testkit.Must(settings.Read(append([]string{"DATABASE_URL=" + address, "LEDGERFEED_SECRET_KEY=0123456789abcdef", "LEDGERFEED_ADMIN_LISTEN=127.0.0.1:1"}, set...), nil))(t)
	pool := testkit.Must(pgxpool.New(t.Context(), address))(t)
	t.Cleanup(pool.Close)
	p := &patient{&examination{env, &operate.Database{URL: address}, "", pool}, t, nil}
	p.endService = p.serve("api project deliver console")
	return p
}

// serve connects as a process with some roles does, until the returned function is called.
func (p *patient) serve(roles string) (end func()) {
	p.t.Helper()
	cfg := testkit.Must(pgx.ParseConfig(p.db.URL))(p.t)
	cfg.RuntimeParams["application_name"] = "ledgerfeed serves " + roles
	conn := testkit.Must(pgx.ConnectConfig(p.t.Context(), cfg))(p.t)
	end = func() { _ = conn.Close(context.WithoutCancel(p.t.Context())) }
	p.t.Cleanup(end)
	return end
}

// asService examines as the account of a service from now on, with rights that were changed
// by some SQL before.
func (p *patient) asService(changes ...string) {
	p.t.Helper()
	if err := migrations.ApplyGrants(p.t.Context(), p.db.URL); err != nil {
		p.t.Fatal(err)
	}
	for _, sql := range changes {
		p.exec(sql)
	}
	p.pool = testkit.Must(pgxpool.New(p.t.Context(), p.db.URL+"&role="+migrations.RoleService))(p.t)
	p.t.Cleanup(testkit.AsPool(p.pool).Close)
}

func (p *patient) exec(sql string, args ...any) {
	p.t.Helper()
	if _, err := p.pool.Exec(p.t.Context(), sql, args...); err != nil {
		p.t.Fatal(err)
	}
}

// finds examines and wants a check to say something at a level, with what to do.
func (p *patient) finds(name string, level Level, text string) {
	p.t.Helper()
	for _, f := range examine(p.t.Context(), p.examination, checks()) {
		if f.Check == name && f.Level == level && strings.Contains(f.Text, text) {
			if (f.Do == "") != (level == OK) {
				p.t.Errorf("%s says %q, and to do %q", name, f.Text, f.Do)
			}
			return
		}
	}
	p.t.Errorf("%s does not say %s with %q: %+v", name, level, text, examine(p.t.Context(), p.examination, checks()))
}

// In an installation that works the checks say nothing but what is so in every test:
// its server may lose data, its role is a superuser, and nobody gets mail.
func TestHealthy(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	for _, f := range examine(t.Context(), p.examination, checks()) {
		switch f.Check {
		case "durability", "privileges", "mail server":
			if f.Level == OK {
				t.Errorf("%s is %+v", f.Check, f)
			}
		case "free space": // of the machine that runs the test
		default:
			if f.Level != OK {
				t.Errorf("%+v", f)
			}
		}
	}
}

// The account of a service has all that it needs, and is not told to become the owner.
func TestAsTheService(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	p.asService()
	p.finds("privileges", Warning, "run with the rights of ledgerfeed, a superuser") // as in every test
	for _, f := range examine(t.Context(), p.examination, append(checks(), checksAfterRestore()...)) {
		if f.Level == Error && f.Check != "durability" {
			t.Errorf("%+v", f)
		}
	}
}

// A database without a schema is one finding, not one for each table that is missing.
func TestNoSchema(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	p.exec(`DELETE FROM goose_db_version`)
	p.exec(`ALTER TABLE event_log DROP COLUMN appended_at`)
	p.finds("schema", Error, "has no tables of this program")
	for _, f := range examine(t.Context(), p.examination, append(checks(), checksAfterRestore()...)) {
		if f.Level == Error && f.Check != "durability" && f.Check != "schema" && f.Check != "free space" {
			t.Errorf("%+v", f)
		}
	}
}

func TestFindings(t *testing.T) {
	t.Parallel()
	t.Run("clock", func(t *testing.T) {
		t.Parallel()
		p := newPatient(t)
		p.env.Clock = func() time.Time { return time.Now().Add(time.Minute) }
		p.finds("clock", Warning, "from the database's")
		p.env.Clock = func() time.Time { return time.Now().Add(-time.Hour) }
		p.finds("clock", Error, "appends are refused")
	})
	t.Run("key", func(t *testing.T) {
		t.Parallel()
		p := newPatient(t)
		p.exec(`INSERT INTO secret_key (workspace_id, fingerprint, state, since) VALUES ('*', '\x0102030405060708', 'sealing', now())`)
		p.finds("keys", Error, "do not fit")
	})
	t.Run("brand", func(t *testing.T) {
		t.Parallel()
		p := newPatient(t, "LEDGERFEED_BRAND=Blue-Door")
		p.finds("API keys", OK, "there is no workspace yet. Create one, and a key for those who read it: ledgerfeed workspace create --id")
		p.exec(`SELECT workspace_create('acme', 'Acme', now())`)
		p.finds("API keys", OK, "none can be used: ledgerfeed key create makes one")
		add := func(id, prefix, secretEnds string) {
			t.Helper()
			p.exec(`INSERT INTO api_key (workspace_id, key_id, name, permissions, created_at) VALUES ('acme', $1, 'r', '{}', now())`, id)
			p.exec(`INSERT INTO api_key_secret (workspace_id, key_id, hash, prefix, created_at, ends_at) VALUES ('acme', $1, sha256(convert_to($1, 'UTF8')), $2, now(), `+secretEnds+`)`, id, prefix)
		}
		add("mine", "blue-door_12345678", "NULL")
		add("replaced", "service_12345678", "now()")
		add("revoked", "service_12345678", "NULL")
		p.exec(`UPDATE api_key SET revoked_at = now() WHERE key_id = 'revoked'`)
		p.finds("API keys", OK, "1 can be used")
		add("other", "service_12345678", "NULL")
		p.finds("API keys", Error, "1 of 2 is refused: it was made under another brand, such as service, than LEDGERFEED_BRAND, which is Blue-Door")
		p.exec(`SELECT workspace_create('other', 'Other', now())`)
		for _, workspace := range []string{"acme", "other"} {
			p.exec(`INSERT INTO producer (workspace_id, producer_id, name, created_at) VALUES ($1, 'both', 'p', now())`, workspace)
			p.exec(`INSERT INTO producer_secret (workspace_id, producer_id, hash, prefix, created_at) VALUES ($1, 'both', sha256('both'), 'producer_blue-door_12345678', now())`, workspace)
		}
		p.finds("producers", OK, "1 can be used")
		p.exec(`UPDATE producer_secret SET prefix = 'producer_service_12345678'`)
		p.finds("producers", Error, "1 of 1 is refused: it was made under another brand, such as service, than LEDGERFEED_BRAND, which is Blue-Door")
	})
	t.Run("read models", func(t *testing.T) {
		t.Parallel()
		p := newPatient(t)
		p.exec(`SELECT workspace_create('acme', 'Acme', now())`)
		p.exec(`UPDATE log_head SET position = 3 WHERE workspace_id = 'acme'`)
		p.exec(`UPDATE log_checkpoint SET failures = 20, quarantined = true, error = 'it cannot be folded' WHERE workspace_id = 'acme'`)
		p.finds("read models", Error, "1 workspace waits before an entry")
	})
	t.Run("webhooks", func(t *testing.T) {
		t.Parallel()
		p := newPatient(t)
		p.exec(`SELECT workspace_create('acme', 'Acme', now())`)
		p.exec(`INSERT INTO webhook (workspace_id, webhook_id, url, created_at, secret, state, failing_since) VALUES
			('acme', 'w1', 'https://a.example', now(), '\x00', 'off', now()), ('acme', 'w2', 'https://a.example', now(), '\x00', 'on', now())`)
		p.finds("webhooks", Warning, "1 webhook fails (w2), 1 webhook is off")
		p.exec(`INSERT INTO webhook (workspace_id, webhook_id, url, created_at, secret, state, failing_since)
			SELECT 'acme', 'x' || n, 'https://a.example', now(), '\x00', 'on', now() + interval '1 minute' FROM generate_series(1, 7) n`)
		p.finds("webhooks", Warning, "8 webhooks fail (w2, x1, x2, x3, x4 and 3 more), 1 webhook is off")
		p.exec(`INSERT INTO webhook_cursor (workspace_id, webhook_id, position) VALUES ('acme', 'w2', 0)`)
		p.exec(`INSERT INTO webhook_waiting (workspace_id, webhook_id, position, created_at, attempts, next_attempt_at, epoch) VALUES ('acme', 'w2', 1, now(), 1, now(), 0)`)
		p.finds("webhooks", Warning, "1 webhook is off, 1 delivery waits for another attempt")
		p.exec(`UPDATE webhook SET state = 'off'`)
		p.finds("webhooks", Warning, "9 webhooks are off")
	})
	t.Run("mail server and identity provider", func(t *testing.T) {
		t.Parallel()
		gone := testkit.Must(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
		address := gone.Addr().String()
		_ = gone.Close()
		p := newPatient(t, "LEDGERFEED_SMTP_URL=smtp://user:hunter2@"+address, "LEDGERFEED_MAIL_FROM=a@b.example",
			"LEDGERFEED_OIDC_ISSUER=http://"+address, "LEDGERFEED_OIDC_CLIENT_ID=console")
		p.finds("mail server", Error, "cannot connect to the mail server")
		p.finds("identity provider", Error, "cannot read the discovery document of http://"+address)
		for _, f := range examine(t.Context(), p.examination, checks()) {
			if strings.Contains(f.Text+f.Do, "hunter2") {
				t.Errorf("the password is shown: %+v", f)
			}
		}
	})
	t.Run("files", func(t *testing.T) {
		t.Parallel()
		key := filepath.Join(t.TempDir(), "key.pem")
		if err := os.WriteFile(key, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(key, 0o644); err != nil {
			t.Fatal(err)
		}
		p := newPatient(t, "LEDGERFEED_TLS_CERT=/absent.pem", "LEDGERFEED_TLS_KEY="+key)
		p.finds("settings", Error, "LEDGERFEED_TLS_CERT names /absent.pem, which does not exist")
		p.finds("settings", Warning, "every account of this machine can read "+key)
	})
}

// A check that cannot be made is an error of its own, and the others are made.
func TestDatabaseGone(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	testkit.AsPool(p.pool).Close()
	list := examine(t.Context(), p.examination, []check{{"version", checkServerVersion}, {"identity provider", checkIdentityProvider}})
	if len(list) != 2 || list[0].Level != Error || list[0].Do == "" || list[1].Level != OK {
		t.Errorf("%+v", list)
	}
}

// A check that hangs ends.
func TestChecksEnd(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	hangs := check{"hangs", func(ctx context.Context, _ *examination) ([]Finding, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	if list := examine(ctx, nil, []check{hangs}); len(list) != 1 || list[0].Level != Error {
		t.Errorf("%+v", list)
	}
}
