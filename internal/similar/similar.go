// Package similar finds the word that somebody may have meant.
package similar

import "slices"

// Find returns the candidate that is closest to a mistyped word; ok is false if none is close.
func Find(word string, candidates []string) (meant string, ok bool) {
	best := 1 + (len(word)+1)/4 // changes; the shorter the word, the fewer
	for _, c := range candidates {
		if n := distance(word, c); n > 0 && n < best {
			best, meant, ok = n, c, true
		}
	}
	return meant, ok
}

// Hint returns the end of an error about a word: "; did you mean x?", or nothing.
func Hint(word string, candidates []string) string {
	if meant, ok := Find(word, candidates); ok {
		return "; did you mean " + meant + "?"
	}
	return ""
}

// distance returns how many bytes have to be added, removed, replaced, or swapped with their
// neighbour, to turn one word into the other.
func distance(a, b string) int {
	var before []int
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := []int{i + 1}
		for j := range len(b) {
			replace := last[j]
			if a[i] != b[j] {
				replace++
			}
			n := slices.Min([]int{last[j+1] + 1, row[j] + 1, replace})
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				n = min(n, before[j-1]+1)
			}
			row = append(row, n)
		}
		before, last = last, row
	}
	return last[len(b)]
}
