package answer

// Names of headers as they are written. They are set under exactly these names,
// because the canonical ones would be Etag and Ratelimit-Limit on the wire.
const (
	HeaderAllow           = "Allow"
	HeaderCacheControl    = "Cache-Control"
	HeaderChallenge       = "WWW-Authenticate"
	HeaderContentEncoding = "Content-Encoding"
	HeaderContentLength   = "Content-Length"
	HeaderContentType     = "Content-Type"
	HeaderDisposition     = "Content-Disposition"
	HeaderETag            = "ETag"
	HeaderEventIndex      = "Event-Index"
	HeaderLimit           = "RateLimit-Limit"
	HeaderLocation        = "Location"
	HeaderLogPosition     = "Log-Position"
	HeaderAtLeast         = "Log-Position-At-Least" // of requests
	HeaderApplied         = "Preference-Applied"
	HeaderPrefer          = "Prefer" // of requests
	HeaderNextCursor      = "Next-Cursor"
	HeaderNoSniff         = "X-Content-Type-Options"
	HeaderPolicy          = "RateLimit-Policy"
	HeaderPolicyOfContent = "Content-Security-Policy"
	HeaderRate            = "RateLimit"
	HeaderRemaining       = "RateLimit-Remaining"
	HeaderRequestID       = "X-Request-Id"
	HeaderReset           = "RateLimit-Reset"
	HeaderRetryAfter      = "Retry-After"
	HeaderTrailer         = "Trailer"
	HeaderVary            = "Vary"
)

// Values of headers that never change.
const (
	AllowedMethods  = "GET, HEAD, OPTIONS"                   // Allow
	CacheRevalidate = "private, no-cache"                    // Cache-Control beside an ETag
	CacheImmutable  = "private, max-age=31536000, immutable" // Cache-Control of what never changes
	CacheNever      = "private, no-store"                    // Cache-Control of all other answers
	Challenge       = "Bearer"                               // WWW-Authenticate
	NoSniff         = "nosniff"                              // X-Content-Type-Options
	VaryEncoding    = "Accept-Encoding"                      // Vary
	VaryForm        = "Accept, Accept-Encoding"              // Vary of lists of rows
	VaryKey         = "Authorization, Accept-Encoding"       // Vary of what keys see differently at one address and may be cached
)

// Policy is what the RateLimit headers of an answer count, as the IETF draft names
// it.
type Policy string

// The policies.
const (
	PolicyKey     Policy = "key"          // requests of the key
	PolicyAddress Policy = "refused-keys" // refused keys of the address
)

// fixedValues are header values as net/http takes them, made once and only read.
type fixedValues struct {
	allow, cacheRevalidate, cacheImmutable, cacheNever, challenge, noSniff, typeJSON, typeProblem, varyEncoding, varyForm, varyKey, trailer []string
}

func newFixedValues() fixedValues {
	return fixedValues{
		allow:           []string{AllowedMethods},
		cacheRevalidate: []string{CacheRevalidate},
		cacheImmutable:  []string{CacheImmutable},
		cacheNever:      []string{CacheNever},
		challenge:       []string{Challenge},
		noSniff:         []string{NoSniff},
		typeJSON:        []string{"application/json"},
		typeProblem:     []string{"application/problem+json"},
		varyEncoding:    []string{VaryEncoding},
		varyForm:        []string{VaryForm},
		varyKey:         []string{VaryKey},
		trailer:         []string{HeaderNextCursor},
	}
}
