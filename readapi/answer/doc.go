// Package answer writes the API's answers: their common headers (docs/contract/decisions.md,
// "Requests"), problem documents (docs/contract/service.md, "Errors"), content codings and ETags.
// Package readapi decides what an answer says.
package answer
