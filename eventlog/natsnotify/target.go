// Package natsnotify carries notifications between processes over a NATS server, where
// PostgreSQL's LISTEN does not reach: behind a pooler, and between several servers. It is
// plain NATS, without JetStream: nothing is stored, and a notification that is lost is made
// up for by sweeps. It is an eventlog.Transport.
package natsnotify

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/bus/jetstream"
)

// DefaultSubject begins the subjects. Streams of a relay do not store what is below it.
const DefaultSubject = "ledgerfeed_wake"

// ParseTarget reads an address, such as nats://user:password@n1:4222,n2:4222/?subject=billing_wake:
// servers and the parameters subject, creds and ca, as for a relay. The error does not show
// passwords.
func ParseTarget(address string) (*jetstream.Target, error) {
	_, query, _ := strings.Cut(address, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, errors.New("what follows the ? is not of the form name=value&name=value")
	}
	for _, name := range []string{"stream", "replicas"} {
		if values.Has(name) {
			return nil, fmt.Errorf("there is no parameter %s: notifications are not stored; there are subject, creds and ca", name)
		}
	}
	target, err := jetstream.ParseTarget(address)
	if err != nil {
		return nil, err
	}
	if !values.Has("subject") {
		target.Subject = DefaultSubject
	}
	return target, nil
}

// subjectOf is the subject of a topic below prefix.
func subjectOf(prefix string, topic eventlog.Topic) string { return prefix + "." + string(topic) }
