// Package wholelist has what a whole list needs in addition to a page (docs/contract/decisions.md,
// "Responses", whole lists): the formats of its rows, and the limit on how many lists are read at
// the same time. Package readapi decides which rows a list has and what a key sees of them, as it
// does for pages.
package wholelist
