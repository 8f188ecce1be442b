package access

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/ledgerfeed/ledgerfeed/internal/brand"
	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// Limits and defaults of keys.
const (
	// MaxLiveKeys is how many keys a workspace may have that are neither revoked
	// nor expired (docs/contract/decisions.md, "Keys").
	MaxLiveKeys = 100
	// DefaultRateLimit is in requests a clock minute (docs/contract/service.md, "Limits").
	DefaultRateLimit = 120
	// MaxRateLimit is the highest limit that can be set, in requests a minute.
	MaxRateLimit = 1_000_000
	// MaxOverlap is how long a rotation may keep the old secret at most.
	MaxOverlap = 24 * time.Hour

	maxNameLength = 100
)

// Key says what a request may do and in which workspace. Many requests share the Key that a
// Directory returns, so it must not be changed.
type Key struct {
	ID            string // "key_" and a UUIDv7; the same before and after a rotation
	WorkspaceID   string
	WorkspaceName string // at most a second old if the code that changes it calls BumpRevision
	Name          string
	Prefix        string // public part of the secret in use: brand, underscore, 8 characters
	Permissions   Permissions
	RateLimit     int       // requests a clock minute
	CreatedAt     time.Time // UTC, whole microseconds
	ExpiresAt     time.Time // refused from then on; zero: never

	Move *Move // the workspace's move, set by a Directory only; nil: it was never moved
}

// Move describes a workspace that was moved between databases.
type Move struct {
	Away bool   // another database has the workspace, or it is on its way here from one
	To   string // the address of the API there; empty: not known
	// CursorKeys are the keys, 32 bytes each, that sealed the workspace's cursors in the database
	// it came from.
	CursorKeys [][]byte
}

// State is whether a key works.
type State string

// The states of a key.
const (
	Live    State = "live"
	Expired State = "expired"
	Revoked State = "revoked"
)

// Record is a key with the details that its managers see. Its Prefix belongs to the newest secret.
type Record struct {
	Key
	RevokedAt  time.Time // zero: it was not revoked
	LastUsedAt time.Time // when a request with it was last accepted, to the minute; zero: never
	Replaced   []ReplacedSecret
}

// ReplacedSecret is an earlier secret of a rotated key, newest first in a Record.
type ReplacedSecret struct {
	Prefix    string
	CreatedAt time.Time
	EndsAt    time.Time // refused from then on
}

// State is whether the key works at now.
func (r *Record) State(now time.Time) State {
	switch {
	case !r.RevokedAt.IsZero():
		return Revoked
	case !r.ExpiresAt.IsZero() && !now.Before(r.ExpiresAt):
		return Expired
	}
	return Live
}

// NewKey is what a new key is made from.
type NewKey struct {
	WorkspaceID string
	Name        string // 1 to 100 characters, without control characters or spaces around
	Permissions Permissions
	ExpiresAt   time.Time // in the future; zero: never
	RateLimit   int       // requests a minute, 1 to MaxRateLimit; 0: DefaultRateLimit
}

// validate reports all mistakes at once, each as an *InvalidError.
func (n *NewKey) validate(now time.Time) error {
	errs := []error{CheckName(n.Name), n.Permissions.validate(), validateRateLimit(n.RateLimit)}
	if !n.ExpiresAt.IsZero() && !n.ExpiresAt.After(now) {
		errs = append(errs, &InvalidError{Field: "expires", Problem: "must be in the future"})
	}
	return errors.Join(errs...)
}

// CheckName checks the name of a key. The error is an *InvalidError.
func CheckName(name string) error {
	var problem string
	switch {
	case name == "":
		problem = "must not be empty"
	case !utf8.ValidString(name):
		problem = "must be UTF-8"
	case utf8.RuneCountInString(name) > maxNameLength:
		problem = fmt.Sprintf("must have at most %d characters", maxNameLength)
	case strings.TrimSpace(name) != name:
		problem = "must not begin or end with a space"
	case strings.ContainsFunc(name, unicode.IsControl):
		problem = "must not hold control characters"
	default:
		return nil
	}
	return &InvalidError{Field: "name", Problem: problem}
}

func validateRateLimit(perMinute int) error {
	if perMinute < 1 || perMinute > MaxRateLimit {
		return &InvalidError{Field: "rate-limit", Problem: fmt.Sprintf("must be 1 to %d requests a minute", MaxRateLimit)}
	}
	return nil
}

// InvalidError reports invalid input to this package. Its text is for the user.
type InvalidError struct {
	Field   string // "name", "scopes", "expires", "rate-limit" or "overlap"
	Problem string
}

func (e *InvalidError) Error() string { return e.Field + ": " + e.Problem }

// keyIDPrefix is what the id of a key begins with.
const keyIDPrefix = "key_"

// UnknownKeyError means that the key does not exist in the workspace.
type UnknownKeyError struct{ KeyID string }

// Error repeats nothing but an id: what was given in its place may be a key with its secret.
func (e *UnknownKeyError) Error() string {
	if !strings.HasPrefix(e.KeyID, keyIDPrefix) {
		return "there is no such key: want its id, which begins with " + keyIDPrefix + ", or its prefix, as ledgerfeed key list shows both; not the key itself, whose rest is secret"
	}
	return fmt.Sprintf("there is no key %q", e.KeyID)
}

// NotLiveError means that a key can no longer be changed because it is revoked or
// expired.
type NotLiveError struct {
	KeyID string
	State State // Revoked or Expired
}

func (e *NotLiveError) Error() string {
	return fmt.Sprintf("the key %q is %s; make a new one", e.KeyID, e.State)
}

// TooManyKeysError means that a workspace already has MaxLiveKeys live keys.
type TooManyKeysError struct{ WorkspaceID string }

func (e *TooManyKeysError) Error() string {
	return fmt.Sprintf("the workspace %q has %d live keys, which is the most it may have; revoke one first", e.WorkspaceID, MaxLiveKeys)
}

// hash is the SHA-256 of a key's full text.
type hash = [sha256.Size]byte

// entry is what the database holds about one secret. It never changes.
type entry struct {
	key     *Key
	revoked bool
	ended   bool      // replaced by a rotation without an overlap
	endsAt  time.Time // refused from then on because of a rotation; zero: never
	readAt  time.Time // by the directory's clock, before the database was queried
}

// admit returns the key if it may be used at now. The error is a *RefusedError.
func (e *entry) admit(now time.Time) (*Key, error) {
	var reason Reason
	switch {
	case e.revoked:
		reason = ReasonRevoked
	case !e.key.ExpiresAt.IsZero() && !now.Before(e.key.ExpiresAt):
		reason = ReasonExpired
	case e.ended || !e.endsAt.IsZero() && !now.Before(e.endsAt):
		reason = ReasonRotated
	default:
		return e.key, nil
	}
	return nil, &RefusedError{Reason: reason, Prefix: e.key.Prefix, KeyID: e.key.ID, WorkspaceID: e.key.WorkspaceID}
}

// readEntries reads secrets from the database. The result omits hashes that do not exist.
func readEntries(ctx context.Context, pool pg.DB, hashes []hash) (map[hash]*entry, error) {
	const find = `SELECT s.hash, k.key_id, k.workspace_id, w.name, k.name, s.prefix, k.permissions, k.rate_limit_per_minute,
			k.created_at, k.expires_at, k.revoked_at IS NOT NULL, s.ended, s.ends_at,
			coalesce(w.move IN ('moved', 'receiving'), false), coalesce(w.moved_to, ''),
			ARRAY(SELECT c.value FROM cursor_key c WHERE c.workspace_id = w.workspace_id ORDER BY c.since DESC, c.value)
		FROM api_key_secret s
		JOIN api_key k ON k.workspace_id = s.workspace_id AND k.key_id = s.key_id
		JOIN workspace w ON w.workspace_id = s.workspace_id
		WHERE s.hash = ANY ($1)`
	wanted := make([][]byte, len(hashes))
	for i := range hashes {
		wanted[i] = hashes[i][:]
	}
	found := make(map[hash]*entry, len(hashes))
	var (
		stored            []byte
		k                 Key
		e                 entry
		move              Move
		permissions       []string
		expiresAt, endsAt *time.Time
	)
	err := pg.ForEach(ctx, pool, find, []any{wanted}, []any{
		&stored, &k.ID, &k.WorkspaceID, &k.WorkspaceName, &k.Name, &k.Prefix, &permissions, &k.RateLimit,
		&k.CreatedAt, &expiresAt, &e.revoked, &e.ended, &endsAt, &move.Away, &move.To, &move.CursorKeys,
	}, func() error {
		key, read := k, e
		if move.Away || len(move.CursorKeys) > 0 {
			key.Move = &Move{Away: move.Away, To: move.To, CursorKeys: slices.Clone(move.CursorKeys)}
		}
		key.Permissions = storedPermissions(permissions)
		key.CreatedAt = k.CreatedAt.UTC()
		key.ExpiresAt = orZero(expiresAt)
		read.key, read.endsAt = &key, orZero(endsAt)
		found[hash(stored)] = &read // 32 bytes by a constraint of the table
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for keys: %w", err)
	}
	return found, nil
}

// ErrRefused means that a request has no valid key: 401. Every refusal by a Directory matches it,
// and API callers cannot tell refusals apart (docs/contract/decisions.md, "Requests", 4).
var ErrRefused = errors.New("the API key is refused")

// ErrUnavailable means that the database does not answer, so a key cannot be checked: 503.
var ErrUnavailable = errors.New("API keys cannot be checked now")

// Reason is why a key was refused, for logs and metrics only.
type Reason string

// The reasons.
const (
	ReasonMissing   Reason = "missing"
	ReasonMalformed Reason = "malformed"
	ReasonUnknown   Reason = "unknown"
	ReasonRevoked   Reason = "revoked"
	ReasonRotated   Reason = "rotated"
	ReasonExpired   Reason = "expired"
)

// RefusedError is a refusal with the details that logs may contain. It matches ErrRefused.
type RefusedError struct {
	Reason      Reason
	Prefix      string // public part of what was sent; empty if missing or malformed
	KeyID       string // empty unless the key exists
	WorkspaceID string // empty unless the key exists
}

func (e *RefusedError) Error() string { return ErrRefused.Error() + ": " + string(e.Reason) }

// Unwrap makes errors.Is(err, ErrRefused) true.
func (e *RefusedError) Unwrap() error { return ErrRefused }

// errMalformed means that a text is not a key: its form or its checksum is wrong, for example after
// a typing mistake. The error does not say which.
var errMalformed = errors.New("the text is not an API key")

const (
	digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

	prefixLength   = 8
	secretLength   = 32 // 190 bits in new keys; longer secrets are accepted
	checksumLength = 6  // 62^6 > 2^32, so a CRC-32 fits
	maxKeyLength   = 256
	hidden         = "[redacted]"
)

// Format defines how the keys of one brand are written (docs/contract/decisions.md, "Keys"):
//
//	<brand lower-case>_<8 characters prefix>_<32 or more characters secret><6 characters checksum>
//
// All parts except the brand are base62 (0-9, A-Z, a-z). The checksum is the CRC-32 (IEEE) of
// everything before it, in base62, highest digit first. It catches every mistyped character but
// proves nothing, because anybody can compute it. A Format comes from NewFormat and may be used by
// any number of goroutines.
type Format struct {
	brand  string
	anyKey *regexp.Regexp
}

// NewFormat returns the format of a brand's keys. The brand's case does not
// matter.
func NewFormat(name brand.Brand) Format {
	prefix := name.KeyPrefix()
	// Redaction finds more than parse accepts: the brand in any case, and URL-encoded underscores.
	const underscore = `(?:_|%5[Ff])`
	// Redact what follows without a gap too: it may be the next key.
	pattern := fmt.Sprintf(`((?i:%s)%s[0-9A-Za-z]{%d}%s)[0-9A-Za-z]{%d}(?:[0-9A-Za-z_-]|%%5[Ff])*`,
		regexp.QuoteMeta(prefix), underscore, prefixLength, underscore, secretLength+checksumLength)
	return Format{brand: prefix, anyKey: regexp.MustCompile(pattern)}
}

// Led returns the format of another kind of the brand's keys, which begin with lead and an
// underscore. Neither kind is taken for the other: the checksum covers the lead, too. A Format of
// either kind finds both in texts.
func (f Format) Led(lead string) Format {
	f.brand = lead + "_" + f.brand
	return f
}

// Parse reads the text of a key. The error does not say what is wrong with it.
func (f Format) Parse(text string) (Secret, error) { return f.parse(text) }

// Generate makes a new secret from random, which must be a cryptographic source
// such as crypto/rand.Reader. The error is random's.
func (f Format) Generate(random io.Reader) (Secret, error) {
	characters := make([]byte, prefixLength+secretLength)
	if err := fillBase62(characters, random); err != nil {
		return Secret{}, fmt.Errorf("make a key: %w", err)
	}
	body := f.brand + "_" + string(characters[:prefixLength]) + "_" + string(characters[prefixLength:])
	return f.secretOf(body + checksum(body)), nil
}

// parse reads the text of a key. The error is errMalformed, for every reason.
func (f Format) parse(text string) (Secret, error) {
	body, ok := f.cut(text)
	if !ok || text[len(body):] != checksum(body) {
		return Secret{}, errMalformed
	}
	return f.secretOf(text), nil
}

// Is reports whether a text has the form of a key.
func (f Format) Is(text string) bool {
	_, err := f.parse(text)
	return err == nil
}

// cut returns the part of text that the checksum covers. ok is false if text does not have the form
// of a key.
func (f Format) cut(text string) (body string, ok bool) {
	if len(text) > maxKeyLength {
		return "", false
	}
	rest, ok := strings.CutPrefix(text, f.brand+"_")
	if !ok || len(rest) < prefixLength+1+secretLength+checksumLength || rest[prefixLength] != '_' {
		return "", false
	}
	if !isBase62(rest[:prefixLength]) || !isBase62(rest[prefixLength+1:]) {
		return "", false
	}
	return text[:len(text)-checksumLength], true
}

// LooksLikeKey reports whether text contains something in the form of a key, even with a wrong
// checksum. Use it to refuse keys in URLs (docs/contract/decisions.md, "Requests", 2): pass it
// decoded query values and path segments.
func (f Format) LooksLikeKey(text string) bool {
	return f.mayHoldKey(text) && f.anyKey.MatchString(text)
}

// Redact replaces the secret of every key in text with "[redacted]". The brand and the public
// prefix stay, so that a log still says which key it was.
func (f Format) Redact(text string) string {
	if !f.mayHoldKey(text) {
		return text
	}
	return f.anyKey.ReplaceAllString(text, "${1}"+hidden)
}

// mayHoldKey spares the regular expression for texts that are shorter than a key, as nearly all
// are. The zero Format finds nothing.
func (f Format) mayHoldKey(text string) bool {
	return f.anyKey != nil && len(text) >= 1+1+prefixLength+1+secretLength+checksumLength
}

// Secret is the full text of a key. When it is printed or logged it shows only its
// public part; Reveal returns the text.
type Secret struct {
	text         string
	prefixLength int
}

func (f Format) secretOf(text string) Secret {
	return Secret{text: text, prefixLength: len(f.brand) + 1 + prefixLength}
}

// Reveal returns the full text, for the one time that it is shown to the user.
func (s Secret) Reveal() string { return s.text }

// Prefix is the public beginning: brand, underscore and 8 characters.
func (s Secret) Prefix() string { return s.text[:s.prefixLength] }

// Hash is the SHA-256 of the full text, the only form that is stored.
func (s Secret) Hash() [sha256.Size]byte { return sha256.Sum256([]byte(s.text)) }

// String shows the prefix alone.
func (s Secret) String() string { return s.Prefix() + "_" + hidden }

// GoString keeps %#v from showing the text.
func (s Secret) GoString() string { return "access.Secret(" + s.String() + ")" }

// MarshalText keeps JSON and structured logs from showing the text.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// checksum is the CRC-32 of body in base62.
func checksum(body string) string {
	sum := crc32.ChecksumIEEE([]byte(body))
	var out [checksumLength]byte
	for i := len(out) - 1; i >= 0; i-- {
		out[i] = digits[sum%62]
		sum /= 62
	}
	return string(out[:])
}

// fillBase62 fills dst with equally likely digits. It drops bytes of 248 and more, because 248 is
// the highest multiple of 62 in a byte.
func fillBase62(dst []byte, random io.Reader) error {
	buf := make([]byte, len(dst)+len(dst)/4)
	for filled := 0; filled < len(dst); {
		if _, err := io.ReadFull(random, buf); err != nil {
			return fmt.Errorf("read random bytes: %w", err)
		}
		for _, b := range buf {
			if b < 248 && filled < len(dst) {
				dst[filled] = digits[b%62]
				filled++
			}
		}
	}
	return nil
}

func isBase62(text string) bool {
	for i := range len(text) {
		c := text[i]
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}
