// A receiver of webhooks in Go, standard library only.
//
//	WEBHOOK_SECRET=whsec_… PORT=3000 go run .
//
// It speaks plain HTTP: put whatever ends TLS for you in front of it.
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// tolerance is how far a message's timestamp may be from our clock. It stops
// somebody who recorded a message from sending it again later.
const tolerance = 5 * time.Minute

// verify checks the signature header over the raw body, before any parsing.
// While a secret is rotated the header has several v1 values; one match is enough.
func verify(secret, header string, body []byte, now time.Time) error {
	var stamp string
	var signatures []string
	for part := range strings.SplitSeq(header, ",") {
		switch name, value, _ := strings.Cut(strings.TrimSpace(part), "="); name {
		case "t":
			stamp = value
		case "v1":
			signatures = append(signatures, value)
		}
	}
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return errors.New("no timestamp")
	}
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "%s.%s", stamp, body)
	want := mac.Sum(nil)
	matches := false
	for _, s := range signatures {
		got, err := hex.DecodeString(s)
		matches = err == nil && hmac.Equal(got, want) || matches // constant time
	}
	if !matches {
		return errors.New("no signature matches")
	}
	if now.Sub(time.Unix(seconds, 0)).Abs() > tolerance {
		return errors.New("the timestamp is too far from now")
	}
	return nil
}

// verifyStandard is verify for the headers of Standard Webhooks: the key is base64
// after whsec_, and so are the signatures, which are separated by spaces.
func verifyStandard(secret string, header http.Header, body []byte, now time.Time) error {
	id, stamp := header.Get("webhook-id"), header.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return errors.New("no timestamp")
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		return errors.New("WEBHOOK_SECRET is not base64")
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", id, stamp, body)
	want := mac.Sum(nil)
	matches := false
	for s := range strings.FieldsSeq(header.Get("webhook-signature")) {
		version, value, _ := strings.Cut(s, ",")
		got, err := base64.StdEncoding.DecodeString(value)
		matches = version == "v1" && err == nil && hmac.Equal(got, want) || matches // constant time
	}
	if !matches {
		return errors.New("no signature matches")
	}
	if now.Sub(time.Unix(seconds, 0)).Abs() > tolerance {
		return errors.New("the timestamp is too far from now")
	}
	return nil
}

// mostSeen is how many events are remembered.
const mostSeen = 100_000

// seen remembers which events were handled: the same one can arrive twice. A
// real receiver keeps the ids in its database, in the transaction that handles
// the event; here are the last ones.
type seen struct {
	mu    sync.Mutex
	ids   map[string]bool
	order []string // of ids, as a ring
	next  int
}

// first tells whether an id comes for the first time.
func (s *seen) first(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ids[id] {
		return false
	}
	s.ids[id] = true
	if len(s.order) < mostSeen {
		s.order = append(s.order, id)
		return true
	}
	delete(s.ids, s.order[s.next])
	s.order[s.next] = id
	s.next = (s.next + 1) % mostSeen
	return true
}

type event struct {
	ID   string            `json:"id"`
	Type string            `json:"type"`
	Data map[string]string `json:"data"`
}

// handler handles an event once.
func handler() func(event) {
	handled := &seen{ids: map[string]bool{}}
	return func(e event) {
		if handled.first(e.ID) {
			// Put it into a queue of your own here and answer at once: an
			// answer later than 10 seconds counts as a failure.
			fmt.Fprintln(os.Stdout, "event", e.ID, e.Type, e.Data["object_type"], e.Data["object_id"])
		}
	}
}

func main() {
	secret, brand, port := os.Getenv("WEBHOOK_SECRET"), os.Getenv("WEBHOOK_BRAND"), os.Getenv("PORT")
	standard := os.Getenv("WEBHOOK_STANDARD") == "1" // the headers of Standard Webhooks
	if secret == "" {
		log.Fatal("set WEBHOOK_SECRET to the webhook's signing secret")
	}
	if brand == "" {
		brand = "SERVICE"
	}
	handle := handler()
	take := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil || r.Method != http.MethodPost {
			http.Error(w, "want a POST of at most 1 MiB", http.StatusBadRequest)
			return
		}
		if standard {
			err = verifyStandard(secret, r.Header, body, time.Now())
		} else {
			err = verify(secret, r.Header.Get(brand+"-Signature"), body, time.Now())
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		var e event
		if err := json.Unmarshal(body, &e); err != nil {
			http.Error(w, "not an event", http.StatusBadRequest)
			return
		}
		handle(e)
		w.WriteHeader(http.StatusNoContent)
	})
	server := &http.Server{Addr: "127.0.0.1:" + port, Handler: take, ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(server.ListenAndServe())
}
