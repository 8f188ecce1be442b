// Package similar finds the word that somebody may have meant.
package similar

import "slices"

// Find returns the candidate that is most like a word that was mistyped; ok is false
// when none is like it.
func Find(word string, candidates []string) (meant string, ok bool) {
	best := 1 + (len(word)+1)/4 // changes; short words are not like each other
	for _, c := range candidates {
		if n := distance(word, c); n > 0 && n < best {
			best, meant, ok = n, c, true
		}
	}
	return meant, ok
}

// Hint is the end of an error about a word: "; did you mean x?", or nothing.
func Hint(word string, candidates []string) string {
	if meant, ok := Find(word, candidates); ok {
		return "; did you mean " + meant + "?"
	}
	return ""
}

// distance is how many bytes have to be added, taken away, replaced, or swapped with
// their neighbour, to make one word of another.
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
