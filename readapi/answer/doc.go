// Package answer writes the API's answers: their common headers (docs/contract/decisions.md,
// "Requests"), problem documents (docs/contract/service.md, "Errors"), content codings and ETags.
// For a whole list ("Responses", whole lists) it also has the formats of the rows, and the limit on how
// many lists are read at the same time. Package readapi decides what an answer says, which rows a list
// has and what a key sees of them.
package answer
