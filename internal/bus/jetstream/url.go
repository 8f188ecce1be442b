// Package jetstream is NATS JetStream as a bus: Watermill's publisher for NATS, with
// subjects of workspaces and types, and ids by which the server tells what it has stored
// already.
package jetstream

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Target is what an address of JetStream says, such as
// nats://user:password@n1:4222,n2:4222/?stream=LEDGERFEED&subject=ledgerfeed&replicas=3.
type Target struct {
	Servers  string // for nats.Connect
	Stream   string // default LEDGERFEED
	Subject  string // the beginning of the subjects; default ledgerfeed
	Replicas int    // with so many the stream is made where it does not exist; 0: it is not made
	Creds    string // a file with credentials (JWT and key); empty: none
	CA       string // a file with certificates of authorities (PEM); empty: those of the system
}

// Schemes are those of JetStream's addresses.
func Schemes() []string { return []string{"nats", "tls"} }

var (
	streamForm  = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	subjectForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}(\.[A-Za-z0-9_-]{1,64}){0,7}$`)
)

// maxReplicas is JetStream's.
const maxReplicas = 5

// ParseTarget reads an address. The error does not show passwords.
func ParseTarget(address string) (*Target, error) {
	scheme, rest, _ := strings.Cut(address, "://")
	if !slices.Contains(Schemes(), scheme) {
		return nil, errors.New("want an address that begins with nats:// or tls://")
	}
	hosts, query, _ := strings.Cut(rest, "?")
	hosts = strings.TrimSuffix(hosts, "/")
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, errors.New("what follows the ? is not of the form name=value&name=value")
	}
	t := &Target{Stream: "LEDGERFEED", Subject: "ledgerfeed"}
	for name, given := range values {
		if len(given) != 1 || given[0] == "" {
			return nil, fmt.Errorf("the parameter %s has no value, or several", name)
		}
		if err := t.set(name, given[0]); err != nil {
			return nil, err
		}
	}
	var servers []string
	for host := range strings.SplitSeq(hosts, ",") {
		server := scheme + "://" + host
		if u, err := url.Parse(server); err != nil || u.Hostname() == "" || u.Path != "" {
			return nil, errors.New("want servers such as nats://n1.example.com:4222,n2.example.com:4222")
		}
		servers = append(servers, server)
	}
	t.Servers = strings.Join(servers, ",")
	return t, nil
}

func (t *Target) set(name, value string) error {
	switch name {
	case "stream":
		if !streamForm.MatchString(value) {
			return errors.New("stream is 1 to 64 of A-Z a-z 0-9 _ -")
		}
		t.Stream = value
	case "subject":
		if !subjectForm.MatchString(value) {
			return errors.New("subject is words of A-Z a-z 0-9 _ - with points between them, such as billing.ledgerfeed")
		}
		t.Subject = value
	case "replicas":
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > maxReplicas {
			return fmt.Errorf("replicas is a number from 1 to %d", maxReplicas)
		}
		t.Replicas = n
	case "creds":
		t.Creds = value
	case "ca":
		t.CA = value
	default:
		return fmt.Errorf("there is no parameter %s; there are stream, subject, replicas, creds and ca", name)
	}
	return nil
}
