// Package replication runs a PostgreSQL with streaming replicas for tests.
package replication
