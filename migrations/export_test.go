package migrations

// UpTo is Up with other files.
var UpTo = upTo
