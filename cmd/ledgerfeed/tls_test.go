package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// certificateFiles writes a certificate for this machine, and its key, into files.
func certificateFiles(t *testing.T) (cert, key string, roots *x509.CertPool) {
	t.Helper()
	server := httptest.NewTLSServer(http.NotFoundHandler()) // it has one
	defer server.Close()
	private := testkit.Must(x509.MarshalPKCS8PrivateKey(server.TLS.Certificates[0].PrivateKey))(t)
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, block := range map[string]*pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: server.Certificate().Raw}, key: {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	roots = x509.NewCertPool()
	roots.AddCert(server.Certificate())
	return cert, key, roots
}

// TestServeTLS: with a certificate the API and the console speak https, the API also
// where a request is so wrong that the server answers it by itself.
func TestServeTLS(t *testing.T) {
	t.Parallel()
	cert, key, roots := certificateFiles(t)
	c := command(t, testkit.NewDatabase(t), "serve", "--roles", "api,console")
	c.Env = append(c.Env, "LEDGERFEED_TLS_CERT="+cert, "LEDGERFEED_TLS_KEY="+key)
	serving := startProcess(t, c)
	api, console := apiOf(serving), strings.TrimSpace(serving.await("for=console url="))
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true}, Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	for address, want := range map[string]int{api + "/v1/me": http.StatusUnauthorized, console + "/sign-in": http.StatusOK} {
		req := testkit.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody))(t)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body := testkit.Must(io.ReadAll(resp.Body))(t)
		_ = resp.Body.Close()
		if resp.StatusCode != want || resp.ProtoMajor != 2 || !strings.HasPrefix(address, "https://") {
			t.Errorf("%s: %d over %s: %s", address, resp.StatusCode, resp.Proto, body)
		}
	}
	raw := testkit.Must((&tls.Dialer{Config: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}).DialContext(t.Context(), "tcp", strings.TrimPrefix(api, "https://")))(t)
	defer func() { _ = raw.Close() }()
	testkit.Must(io.WriteString(raw, "this is no HTTP\r\n\r\n"))(t)
	resp, err := http.ReadResponse(bufio.NewReader(raw), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var problem struct{ Status int }
	if err := json.NewDecoder(resp.Body).Decode(&problem); err != nil || problem.Status != http.StatusBadRequest || resp.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("what is no HTTP is answered with %s, %+v, %v", resp.Header.Get("Content-Type"), problem, err)
	}
}

// A certificate that cannot be read is an error at the start, which names the file.
func TestServeWithoutItsCertificate(t *testing.T) {
	t.Parallel()
	cert, _, _ := certificateFiles(t)
	c := command(t, testkit.NewDatabase(t), "serve", "--roles", "api")
	c.Env = append(c.Env, "LEDGERFEED_TLS_CERT="+cert, "LEDGERFEED_TLS_KEY=/absent/key.pem")
	out, err := c.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "/absent/key.pem") {
		t.Errorf("%v:\n%s", err, out)
	}
}
