// Package limit counts, in clock minutes, the requests of keys and the refused
// keys of addresses (docs/contract/service.md, "Limits").
//
// A [Limiter] counts in memory, so a request costs no SQL. While its Run runs, all
// instances of a service share their counts through the table rate_count: several
// times a second each adds what it counted and reads what the others added.
// Without the database each instance counts alone, and nothing is lost.
package limit
