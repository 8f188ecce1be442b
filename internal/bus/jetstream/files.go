package jetstream

import (
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/ledgerfeed/ledgerfeed/internal/textfile"
)

// Files are read again for each connection, because certificates and credentials are renewed. They
// are read as a person may have written them, with an editor of Windows. Connect returns what is
// wrong in them.

var errNoCertificate = errors.New("it holds no certificate in PEM form")

// authorities trusts the certificates of a file.
func authorities(file string) nats.Option {
	read := func() (*x509.CertPool, error) {
		text, err := textfile.Read(file)
		if err != nil {
			return nil, fmt.Errorf("ca: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("ca: %s: %w", file, errNoCertificate)
		}
		return pool, nil
	}
	return func(o *nats.Options) error {
		_, err := read()
		o.RootCAsCB, o.Secure = read, true
		return err
	}
}

// credentials signs in with the JWT and the key of a file.
func credentials(file string) nats.Option {
	read := func() (o nats.Options, err error) {
		text, err := textfile.Read(file)
		if err == nil {
			err = nats.UserCredentialBytes(text)(&o)
		}
		if err != nil {
			return o, fmt.Errorf("creds: %w", err)
		}
		return o, nil
	}
	jwt := func() (string, error) {
		o, err := read()
		if err != nil {
			return "", err
		}
		return o.UserJWT()
	}
	sign := func(nonce []byte) ([]byte, error) {
		o, err := read()
		if err != nil {
			return nil, err
		}
		signed, err := o.SignatureCB(nonce)
		if err != nil {
			return nil, fmt.Errorf("creds: %s: want a JWT and a key as nsc writes them: %w", file, err)
		}
		return signed, nil
	}
	return func(o *nats.Options) error {
		if _, err := sign([]byte("?")); err != nil {
			return err
		}
		return nats.UserJWT(jwt, sign)(o)
	}
}
