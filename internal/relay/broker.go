package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"

	"github.com/ThreeDotsLabs/watermill/message"
)

// The metadata of messages. Brokers carry it as headers.
const (
	MetadataWorkspaceID = "workspace_id"
	MetadataType        = "type"         // the entry's type
	MetadataPosition    = "position"     // decimal: 1, 2, 3, … in the workspace
	MetadataCreatedAt   = "created_at"   // the publish time, in the public form
	MetadataChain       = "chain"        // the chain value, in hex
	MetadataContentType = "content-type" // of the payload
)

// Publisher publishes messages of workspaces. The topic is the workspace's id, the message's UUID
// is the entry's id, and the metadata holds at least MetadataType. Each publisher derives the
// broker's subjects, topics and keys from these in its own way. NATS JetStream is the only kind so far.
//
// Publishing one message returns when the broker has stored it, and gives up after some seconds.
// Messages of a workspace that are published one after the other are stored in that order. A
// message that is published again is stored once if the broker can recognise it.
type Publisher interface {
	message.Publisher

	// Probe returns why nothing can be published for any workspace; nil if publishing works.
	Probe(ctx context.Context) error
}

// BrokerConfig configures the connection to a broker.
type BrokerConfig struct {
	Name   string // this program's name, shown in the broker
	Logger *slog.Logger
}

// CutParams takes parameters out of an address, gives the value of each to its function in set, and
// returns the rest. An error does not show passwords.
func CutParams(address string, set map[string]func(string) error) (rest string, err error) {
	base, query, _ := strings.Cut(address, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return "", errors.New("what follows the ? is not of the form name=value&name=value")
	}
	for name, read := range set {
		given, there := values[name]
		if !there {
			continue
		}
		if len(given) > 1 {
			return "", fmt.Errorf("%s is given twice", name)
		}
		if err := read(given[0]); err != nil {
			return "", err
		}
		values.Del(name)
		address = base + "?" + values.Encode()
	}
	return strings.TrimSuffix(address, "?"), nil
}
