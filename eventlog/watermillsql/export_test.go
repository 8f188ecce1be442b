package watermillsql

// DraftOf reads a message as an entry, for the fuzz test.
var DraftOf = draftOf
