// Package pgserver runs PostgreSQL servers of a test's own, which it may stop, kill and copy.
package pgserver
