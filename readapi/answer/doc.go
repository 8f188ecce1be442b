// Package answer is the form of the API's answers: the headers that each has
// (docs/contract/decisions.md, "Requests"), problem documents
// (docs/contract/service.md, "Errors"), content codings and ETags. What an answer
// says is decided in readapi.
package answer
