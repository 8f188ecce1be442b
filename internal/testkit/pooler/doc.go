// Package pooler runs PgBouncer, in transaction mode, between tests and their database.
package pooler
