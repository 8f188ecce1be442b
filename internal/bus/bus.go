// Package bus opens message brokers by their URL. What a broker needs to be one is a
// Watermill publisher that can say whether it works; each kind is registered by the scheme
// of its URLs where the program is put together.
package bus

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
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

// Publisher publishes messages of workspaces: the topic is the workspace's id, the UUID
// that of the entry, and the metadata has at least MetadataType. How broker's subjects,
// topics and keys are made of these is the publisher's own.
//
// Publish of one message returns when the broker has stored it, and is given up after
// some seconds. Messages of a workspace that are published one after the other are stored
// in that order; one that is published again is stored once, where the broker can tell.
type Publisher interface {
	message.Publisher

	// Probe returns why nothing can be published, whatever the workspace; nil: it can.
	Probe(ctx context.Context) error
}

// Config of a Publisher.
type Config struct {
	Name   string // of this program, for people who look at the broker
	Logger *slog.Logger
}

// Open opens a Publisher. It does not wait for the broker: that one cannot be reached is
// told by Probe. The error says what is wrong with the URL, without its passwords.
type Open func(url string, cfg Config) (Publisher, error)

// Schemes are kinds of brokers, by the scheme of their URLs.
type Schemes map[string]Open

// Open opens the broker at a URL.
func (s Schemes) Open(url string, cfg Config) (Publisher, error) {
	scheme, _, found := strings.Cut(url, "://")
	open := s[scheme]
	if !found || open == nil {
		known := slices.Sorted(maps.Keys(s))
		return nil, fmt.Errorf("the address has no scheme that this program knows; want one that begins with %s://", strings.Join(known, ":// or "))
	}
	return open(url, cfg)
}
