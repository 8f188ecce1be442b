//go:build outside

package frontproxy

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// The names that the configurations serve.
const (
	APIHost     = "api.example.com"
	ConsoleHost = "console.example.com"
)

// Kind is a proxy.
type Kind string

// The proxies.
const (
	Nginx Kind = "nginx"
	Caddy Kind = "caddy"
)

// Kinds are all of them.
func Kinds() []Kind { return []Kind{Nginx, Caddy} }

// Instances are several upstream addresses in the form of the proxy's configuration, for
// Config.
func (k Kind) Instances(addresses ...string) string {
	if k == Nginx {
		return strings.Join(addresses, "; server ")
	}
	return strings.Join(addresses, " ")
}

// Config says what a proxy is between.
type Config struct {
	// API and Console are what the proxy forwards to, host:port; nothing listens at an
	// address that is empty.
	API, Console string

	// Before are the networks of load balancers before the proxy, as CIDRs.
	Before []string
}

// Ports below those that the kernel gives to others.
const (
	tlsPort        = "18443"
	plainPort      = "18080"
	sparePort      = "18444" // in place of the IPv6 listeners
	sparePlainPort = "18081"
	nobody         = "1" // nothing listens there
)

// site is a place for a proxy.
type site struct {
	dir   string
	ip    string // its own, of the loopback network
	cert  certificate
	admin string // the port of the program's admin listener
}

// command writes the configuration of a proxy and returns what runs it.
func (s *site) command(t testing.TB, kind Kind, cfg Config) *exec.Cmd {
	t.Helper()
	if cfg.API == "" {
		cfg.API = net.JoinHostPort(s.ip, nobody)
	}
	if cfg.Console == "" {
		cfg.Console = net.JoinHostPort(s.ip, nobody)
	}
	if kind == Nginx {
		return s.nginx(t, cfg)
	}
	return s.caddy(t, cfg)
}

// nginx renders nginx.conf. What includes it is as Debian's nginx.conf is, but compresses
// what it can.
func (s *site) nginx(t testing.TB, cfg Config) *exec.Cmd {
	t.Helper()
	var before strings.Builder
	for _, network := range cfg.Before {
		before.WriteString("set_real_ip_from " + network + ";\n")
	}
	s.render(t, "nginx.conf", map[string]string{
		"127.0.0.1:8080":                    cfg.API,
		"127.0.0.1:8081":                    cfg.Console,
		"listen 443 ":                       "listen " + net.JoinHostPort(s.ip, tlsPort) + " ",
		"listen [::]:443 ":                  "listen " + net.JoinHostPort(s.ip, sparePort) + " ",
		"listen 80;":                        "listen " + net.JoinHostPort(s.ip, plainPort) + ";",
		"listen [::]:80;":                   "listen " + net.JoinHostPort(s.ip, sparePlainPort) + ";",
		"/etc/ssl/ledgerfeed/fullchain.pem": s.cert.certFile,
		"/etc/ssl/ledgerfeed/key.pem":       s.cert.keyFile,
		"/var/log/nginx/":                   s.dir + "/",
		"#set_real_ip_from 10.0.0.0/8;":     before.String(),
	})
	s.write(t, "main.conf", strings.ReplaceAll(`
daemon off; master_process off;
pid DIR/pid; error_log DIR/error.log;
events { worker_connections 768; }
http {
	client_body_temp_path DIR/body; proxy_temp_path DIR/proxy; fastcgi_temp_path DIR/fastcgi; uwsgi_temp_path DIR/uwsgi; scgi_temp_path DIR/scgi;
	access_log DIR/access.log;
	gzip on; gzip_proxied any; gzip_min_length 0; gzip_types application/json application/problem+json;
	include DIR/nginx.conf;
}`, "DIR", s.dir))
	return exec.Command("/usr/sbin/nginx", "-p", s.dir, "-c", filepath.Join(s.dir, "main.conf"), "-e", filepath.Join(s.dir, "start.log"))
}

// caddy renders the Caddyfile.
func (s *site) caddy(t testing.TB, cfg Config) *exec.Cmd {
	t.Helper()
	before := ""
	if len(cfg.Before) > 0 {
		before = "trusted_proxies " + strings.Join(cfg.Before, " ")
	}
	s.render(t, "Caddyfile", map[string]string{
		"reverse_proxy 127.0.0.1:8080":      "reverse_proxy " + cfg.API,
		"reverse_proxy 127.0.0.1:8081":      "reverse_proxy " + cfg.Console,
		"health_port 9090":                  "health_port " + s.admin,
		"http_port 80":                      "admin off\n\tdefault_bind " + s.ip + "\n\thttp_port " + plainPort,
		"https_port 443":                    "https_port " + tlsPort,
		"/etc/ssl/ledgerfeed/fullchain.pem": s.cert.certFile,
		"/etc/ssl/ledgerfeed/key.pem":       s.cert.keyFile,
		"/var/log/caddy/":                   s.dir + "/",
		"#trusted_proxies 10.0.0.0/8":       before,
	})
	c := exec.Command("caddy", "run", "--config", filepath.Join(s.dir, "Caddyfile"), "--adapter", "caddyfile")
	c.Env = append(os.Environ(), "HOME="+s.dir, "XDG_CONFIG_HOME="+s.dir, "XDG_DATA_HOME="+s.dir)
	return c
}

// render writes a configuration of packaging/proxy with replaced texts, each of which it
// must have.
func (s *site) render(t testing.TB, name string, replaced map[string]string) {
	t.Helper()
	text := string(testkit.Must(os.ReadFile(filepath.Join(root(t), "packaging", "proxy", name)))(t))
	var pairs []string
	for from, to := range replaced {
		if !strings.Contains(text, from) {
			t.Fatalf("%s has no %q", name, from)
		}
		pairs = append(pairs, from, to)
	}
	s.write(t, name, strings.NewReplacer(pairs...).Replace(text))
}

func (s *site) write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// root is the top of the module that the test is of.
func root(t testing.TB) string {
	t.Helper()
	dir := testkit.Must(os.Getwd())(t)
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("the test is in no module")
		}
		dir = filepath.Dir(dir)
	}
}

// certificate is one for both hosts, which is its own authority.
type certificate struct {
	certFile, keyFile string
	leaf              *x509.Certificate
}

func newCertificate(t testing.TB, dir string) certificate {
	t.Helper()
	key := testkit.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{APIHost, ConsoleHost},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der := testkit.Must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
	c := certificate{
		certFile: filepath.Join(dir, "cert.pem"), keyFile: filepath.Join(dir, "key.pem"), leaf: testkit.Must(x509.ParseCertificate(der))(t),
	}
	private := testkit.Must(x509.MarshalPKCS8PrivateKey(key))(t)
	for name, block := range map[string]*pem.Block{
		c.certFile: {Type: "CERTIFICATE", Bytes: der}, c.keyFile: {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return c
}
