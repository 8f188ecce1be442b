package tryout

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery/receiver"
	"github.com/ledgerfeed/ledgerfeed/internal/datadir"
)

const (
	certificateName = "receiver.pem"
	// keyName has the certificate again, and its key. Receivers of one data directory
	// share it, so that a service that trusts one of them trusts all.
	keyName = "receiver-key.pem"

	// leastValid is how long a kept certificate must be valid, to be used again.
	leastValid = 24 * time.Hour
)

// keptCertificate returns the certificate of a data directory, and the file that everybody
// may read. It makes a new one where there is none that is valid.
func keptCertificate(dataDir string, now time.Time) (cert *tls.Certificate, file string, err error) {
	dir, err := datadir.Make(dataDir)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = dir.Close() }()
	file = filepath.Join(dir.Name(), certificateName)
	if text, err := dir.ReadFile(keyName); err == nil {
		if cert := usableCertificate(text, now); cert != nil {
			return cert, file, publishCertificate(dir, cert)
		}
	}
	if cert, err = receiver.NewCertificate(now); err != nil {
		return nil, "", err
	}
	text, err := encodeCertificate(cert)
	if err == nil {
		err = dir.WriteFile(keyName, text)
	}
	return cert, file, errors.Join(err, publishCertificate(dir, cert))
}

// usableCertificate reads a kept certificate; nil: it is damaged, or ends soon.
func usableCertificate(text []byte, now time.Time) *tls.Certificate {
	cert, err := tls.X509KeyPair(text, text)
	if err != nil || cert.Leaf == nil || now.Add(leastValid).After(cert.Leaf.NotAfter) || now.Before(cert.Leaf.NotBefore) {
		return nil
	}
	return &cert
}

// encodeCertificate writes a certificate and its key.
func encodeCertificate(cert *tls.Certificate) ([]byte, error) {
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		return nil, fmt.Errorf("write the receiver's key: %w", err)
	}
	return bytes.Join([][]byte{
		inPEM(cert), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
	}, nil), nil
}

func inPEM(cert *tls.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]})
}

// readable is the mode of a file that a service under another account reads.
const readable = 0o644

func publishCertificate(dir *datadir.Dir, cert *tls.Certificate) error {
	return errors.Join(dir.WriteFile(certificateName, inPEM(cert)), dir.Chmod(certificateName, readable))
}

// ownFile makes a certificate for a file of the caller's; its key stays in memory.
func ownFile(file string, now time.Time) (*tls.Certificate, error) {
	cert, err := receiver.NewCertificate(now)
	if err != nil {
		return nil, err
	}
	return cert, errors.Join(os.WriteFile(file, inPEM(cert), readable), os.Chmod(file, readable)) // whatever the umask is
}
