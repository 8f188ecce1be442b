package texts

import "fmt"

// Count returns a count and the words that fit it: Count(n, "webhook fails", "webhooks fail") is "1
// webhook fails" or "2 webhooks fail".
func Count[N int | int64 | uint64](n N, one, many string) string {
	return fmt.Sprintf("%d %s", n, Plural(n, one, many))
}

// Plural returns the words that fit a count, without the count.
func Plural[N int | int64 | uint64](n N, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
