package texts

import "slices"

// Similar returns the candidate that is closest to a mistyped word; ok is false if none is close.
func Similar(word string, candidates []string) (meant string, ok bool) {
	meant, n := nearest(word, candidates)
	if n == 0 || n > (len(word)+1)/4 { // the shorter the word, the fewer changes
		return "", false
	}
	return meant, true
}

// Nearest returns the candidate that is closest to a word, however far it is.
func Nearest(word string, candidates []string) string {
	meant, _ := nearest(word, candidates)
	return meant
}

// nearest returns the closest candidate, and by how many changes.
func nearest(word string, candidates []string) (meant string, changes int) {
	for _, c := range candidates {
		if n := distance(word, c); meant == "" || n < changes {
			meant, changes = c, n
		}
	}
	return meant, changes
}

// DidYouMean returns the end of an error about a word: "; did you mean x?", or nothing.
func DidYouMean(word string, candidates []string) string {
	if meant, ok := Similar(word, candidates); ok {
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
