// Package plural writes counts with the words that fit them.
package plural

import "fmt"

// Of returns a count and the words that fit it: Of(n, "webhook fails", "webhooks fail") is "1
// webhook fails" or "2 webhooks fail".
func Of[N int | int64 | uint64](n N, one, many string) string {
	return fmt.Sprintf("%d %s", n, Word(n, one, many))
}

// Word returns the words that fit a count, without the count.
func Word[N int | int64 | uint64](n N, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
