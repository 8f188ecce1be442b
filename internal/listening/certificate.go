package listening

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

// lookEvery is how often handshakes check whether the files have changed.
const lookEvery = 10 * time.Second

// CertificateConfig says where a Certificate is.
type CertificateConfig struct {
	CertFile string // PEM: the certificate, then the intermediate ones
	KeyFile  string // PEM: its private key
	Clock    func() time.Time
	Logger   *slog.Logger
}

// Certificate is a certificate from files, which are read again when they change. It is safe for
// concurrent use.
type Certificate struct {
	cfg CertificateConfig

	mu     sync.Mutex
	pair   *tls.Certificate
	read   fileTimes // of the files that pair was read from
	failed fileTimes // of the files that could not be read
	next   time.Time // when to look again
}

// fileTimes identifies a version of the two files.
type fileTimes struct {
	cert, key         time.Time
	certSize, keySize int64
}

// LoadCertificate reads the certificate. The error names the file.
func LoadCertificate(cfg CertificateConfig) (*Certificate, error) {
	c := &Certificate{cfg: cfg}
	times, err := c.times()
	if err != nil {
		return nil, err
	}
	if err := c.load(times); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Certificate) times() (t fileTimes, err error) {
	cert, err := os.Stat(c.cfg.CertFile)
	if err != nil {
		return t, fmt.Errorf("cannot read the TLS certificate: %w", err)
	}
	key, err := os.Stat(c.cfg.KeyFile)
	if err != nil {
		return t, fmt.Errorf("cannot read the key of the TLS certificate: %w", err)
	}
	return fileTimes{cert.ModTime(), key.ModTime(), cert.Size(), key.Size()}, nil
}

func (c *Certificate) load(times fileTimes) error {
	var pair tls.Certificate
	cert, err := texts.ReadFile(c.cfg.CertFile)
	key, keyErr := texts.ReadFile(c.cfg.KeyFile)
	if err = errors.Join(err, keyErr); err == nil {
		pair, err = tls.X509KeyPair(cert, key)
	}
	if err != nil {
		return fmt.Errorf("cannot use the TLS certificate %s with the key %s: %w", c.cfg.CertFile, c.cfg.KeyFile, err)
	}
	c.pair, c.read = &pair, times
	return nil
}

// current returns the certificate for a handshake. If the files cannot be used, for example because
// the key of a new certificate has not been written yet, the previous certificate stays in use.
func (c *Certificate) current() *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.cfg.Clock()
	if now.Before(c.next) {
		return c.pair
	}
	c.next = now.Add(lookEvery)
	times, err := c.times()
	if err == nil && times == c.read {
		return c.pair
	}
	if err == nil {
		err = c.load(times)
	}
	switch {
	case err == nil:
		c.cfg.Logger.Info("the TLS certificate was read again", "file", c.cfg.CertFile, "expires", c.pair.Leaf.NotAfter)
	case times != c.failed || times == (fileTimes{}):
		c.failed = times
		c.cfg.Logger.Error("the TLS certificate has changed and cannot be read; the one before stays in use", "error", err)
	}
	return c.pair
}

// Expires returns when the certificate ends.
func (c *Certificate) Expires() time.Time { return c.current().Leaf.NotAfter }

// config returns the configuration of handshakes.
func (c *Certificate) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current(), nil },
	}
}
