// Package agents is a Model Context Protocol server: it lets a language model read a service over
// the service's API, with an API key, and nothing else. Its tools come from the API's own
// description. They only read.
//
// An answer is right or an error. Each one names the position of the log that it shows and the ids
// of the rows that it rests on. If an answer would be too long, the error says how to narrow it: a
// model cannot see that rows are missing. Sums come from the API, so that no model adds amounts. What
// people wrote into rows is in the field data of an answer, apart from all that this package says.
package agents
