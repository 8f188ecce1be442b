package attempt

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// SecretPrefix begins every signing secret.
const SecretPrefix = "whsec_"

// Tolerance is how far the timestamp of a signature may be from the receiver's
// clock, in either direction (docs/contract/service.md, "Signature").
const Tolerance = 300 * time.Second

const (
	secretLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	secretLength  = 40 // 238 bits
)

// NewSecret makes a signing secret from random bytes; every secret is equally
// likely.
func NewSecret(random io.Reader) (string, error) {
	const unbiased = 256 / len(secretLetters) * len(secretLetters)
	b := []byte(SecretPrefix)
	buf := make([]byte, secretLength)
	for len(b) < len(SecretPrefix)+secretLength {
		if _, err := io.ReadFull(random, buf); err != nil {
			return "", fmt.Errorf("draw a signing secret: %w", err)
		}
		for _, r := range buf {
			if int(r) < unbiased && len(b) < len(SecretPrefix)+secretLength {
				b = append(b, secretLetters[int(r)%len(secretLetters)])
			}
		}
	}
	return string(b), nil
}

// Sign returns the value of the signature header for a body sent at t, with one
// v1 for each secret, the newest first.
func Sign(t time.Time, body []byte, secrets ...string) string {
	stamp := strconv.FormatInt(t.Unix(), 10)
	b := make([]byte, 0, 2+len(stamp)+len(secrets)*(4+2*sha256.Size))
	b = append(append(b, "t="...), stamp...)
	for _, secret := range secrets {
		b = append(b, ",v1="...)
		b = hex.AppendEncode(b, mac(secret, stamp, body))
	}
	return string(b)
}

func mac(secret, stamp string, body []byte) []byte {
	m := hmac.New(sha256.New, []byte(secret))
	_, _ = io.WriteString(m, stamp+".") // a hash never fails
	_, _ = m.Write(body)
	return m.Sum(nil)
}

// Errors of Verify.
var (
	ErrNoSignature  = errors.New("there is no signature header of the form t=…,v1=…")
	ErrBadSignature = errors.New("no signature matches the body and a secret")
	ErrTooOld       = errors.New("the timestamp is more than 5 minutes from now")
)

// Verify checks a signature header as a receiver should: over the raw body and in
// constant time. One matching v1 is enough, and the timestamp must be within
// Tolerance of now.
func Verify(now time.Time, header string, body []byte, secrets ...string) error {
	stamp, signatures := parseSignature(header)
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || len(signatures) == 0 {
		return ErrNoSignature
	}
	matches := 0
	for _, secret := range secrets {
		want := mac(secret, stamp, body)
		for _, got := range signatures {
			matches |= subtle.ConstantTimeCompare(got, want)
		}
	}
	if matches == 0 {
		return ErrBadSignature
	}
	if away := now.Sub(time.Unix(seconds, 0)); away > Tolerance || away < -Tolerance {
		return ErrTooOld
	}
	return nil
}

func parseSignature(header string) (stamp string, signatures [][]byte) {
	for part := range strings.SplitSeq(header, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch name {
		case "t":
			stamp = value
		case "v1":
			if sum, err := hex.DecodeString(value); err == nil {
				signatures = append(signatures, sum)
			}
		}
	}
	return stamp, signatures
}

// The headers of Standard Webhooks, in lower case as they are sent.
const (
	StandardIDHeader        = "webhook-id"
	StandardTimestampHeader = "webhook-timestamp"
	StandardSignatureHeader = "webhook-signature"
)

// SetStandard sets the headers of Standard Webhooks for a body sent at t
// (docs/contract/decisions.md, "Webhooks"). The signing key is the base64 decoding of the secret
// without its prefix. Secrets of NewSecret are valid base64, so that the standard's libraries take
// them unchanged. SetStandard skips a secret that is not base64. Signatures are separated by
// spaces, the newest secret's first.
func SetStandard(header http.Header, t time.Time, eventID string, body []byte, secrets ...string) {
	stamp := strconv.FormatInt(t.Unix(), 10)
	var signatures []string
	for _, secret := range secrets {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, SecretPrefix))
		if err != nil {
			continue
		}
		m := hmac.New(sha256.New, key)
		_, _ = io.WriteString(m, eventID+"."+stamp+".") // a hash never fails
		_, _ = m.Write(body)
		signatures = append(signatures, "v1,"+base64.StdEncoding.EncodeToString(m.Sum(nil)))
	}
	// The map is filled directly because Header.Set would change the case of the names.
	header[StandardIDHeader] = []string{eventID}
	header[StandardTimestampHeader] = []string{stamp}
	header[StandardSignatureHeader] = []string{strings.Join(signatures, " ")}
}
