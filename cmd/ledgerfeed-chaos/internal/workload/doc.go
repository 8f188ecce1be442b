// Package workload is what uses the program while faults happen to it: producers of
// every kind, followers of every list, receivers of webhooks, readers that measure
// outages, and commands that run beside. They note what they see for package check.
package workload
