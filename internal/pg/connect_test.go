package pg

import (
	"errors"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// fakeServer listens like a server, of this account, and hangs up on its clients.
func fakeServer(t *testing.T) (url string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "pg-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	listener, err := net.Listen("unix", filepath.Join(dir, ".s.PGSQL.5432"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	return "postgres://u@/d?host=" + dir + "&port=5432&sslmode=disable"
}

func TestRequirePeer(t *testing.T) {
	t.Parallel()
	url := fakeServer(t)
	self, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		want    string
		refused bool
	}{
		{self.Username, false},
		{self.Uid, false},
		{strconv.Itoa(os.Geteuid() + 1), true},
	} {
		_, err := Connect(t.Context(), url+"&requirepeer="+test.want)
		var refused *PeerError
		if errors.As(err, &refused) != test.refused {
			t.Errorf("requirepeer=%s: %v", test.want, err)
		}
		_, err = Open(t.Context(), url+"&requirepeer="+test.want, Options{})
		if errors.As(err, &refused) != test.refused {
			t.Errorf("a pool with requirepeer=%s: %v", test.want, err)
		}
	}
	if _, err := ParseConfig(url + "&requirepeer=no-such-account"); err == nil || !strings.Contains(err.Error(), "no-such-account") {
		t.Errorf("an account that does not exist: %v", err)
	}
	cfg, err := ParseConfig(url + "&requirepeer=" + self.Uid)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.ConnConfig.RuntimeParams["requirepeer"] != "" {
		t.Errorf("the server gets %v", cfg.ConnConfig.RuntimeParams)
	}
}

// TestRequirePeerWantsAUnixSocket: over TCP the account cannot be known.
func TestRequirePeerWantsAUnixSocket(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, err = Connect(t.Context(), "postgres://u@"+listener.Addr().String()+"/d?sslmode=disable&requirepeer=root")
	if err == nil || !strings.Contains(err.Error(), "not a Unix socket") {
		t.Errorf("Connect = %v", err)
	}
}
