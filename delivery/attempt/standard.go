package attempt

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

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
