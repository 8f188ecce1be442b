// Package brand holds the name that appears in header names, in the User-Agent of deliveries and in
// API keys (docs/contract/decisions.md, "Names").
package brand

import (
	"fmt"
	"strings"
)

// Brand is the value of LEDGERFEED_BRAND. The zero value is SERVICE.
type Brand struct{ name string }

// maxLength keeps keys and header names short.
const maxLength = 32

// Parse reads a brand: a letter, then up to 31 letters, digits or hyphens, all
// ASCII, so that it fits into header names and can be told from the rest of a
// key. Case is kept.
func Parse(text string) (Brand, error) {
	valid := text != "" && len(text) <= maxLength
	for i := range len(text) {
		c := text[i]
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (i == 0 || c != '-' && (c < '0' || c > '9')) {
			valid = false
		}
	}
	if !valid {
		return Brand{}, fmt.Errorf("brand %q: want a letter, then at most %d letters, digits or hyphens", text, maxLength-1)
	}
	return Brand{text}, nil
}

// UnmarshalText is Parse, for settings.
func (b *Brand) UnmarshalText(text []byte) error {
	parsed, err := Parse(string(text))
	if err == nil {
		*b = parsed
	}
	return err
}

// String returns the brand as it was given.
func (b Brand) String() string {
	if b.name == "" {
		return "SERVICE"
	}
	return b.name
}

// KeyPrefix returns the brand in lower case, as API keys begin with it.
func (b Brand) KeyPrefix() string { return strings.ToLower(b.String()) }

// SignatureHeader names the header with a delivery's signatures.
func (b Brand) SignatureHeader() string { return b.String() + "-Signature" }

// EventIDHeader names the header with the event's id.
func (b Brand) EventIDHeader() string { return b.String() + "-Event-Id" }

// DeliveryIDHeader names the header with the delivery's id.
func (b Brand) DeliveryIDHeader() string { return b.String() + "-Delivery-Id" }

// LogPositionHeader names the header with the position of the event's entry in its workspace's
// log.
func (b Brand) LogPositionHeader() string { return b.String() + "-Log-Position" }

// UserAgent is the User-Agent of deliveries.
func (b Brand) UserAgent() string { return b.String() + "-Webhooks/1" }
