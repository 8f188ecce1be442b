// Package copying keeps a copy of an API's lists in the reader's own database, SQLite or PostgreSQL.
// It uses the public API alone.
//
// The API's own description (OpenAPI) says which lists there are and which fields their rows have.
// Each list becomes a table, each array of objects in its rows a child table. So a field that the
// API gets later becomes a column, without a new version of this program.
//
// Each list has a cursor, which is stored in the transaction that stores its rows. So whatever ends
// the program, the copy shows the list as it was at one moment, and the next run goes on from there.
package copying
