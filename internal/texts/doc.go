// Package texts writes and reads text as people do: counts with the words that fit them, lengths of
// time, files in the encodings of their editors, the word that a mistyped one may have meant, and
// texts that people take for the same when they search.
package texts
