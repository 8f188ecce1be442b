// Package reference writes the documentation of the API for people: guides, each object
// with the meaning of its fields, each operation with code to run, each type of event,
// webhooks and errors. It is made from the same routes, fields and catalogue as the
// OpenAPI document (package openapi), so that they cannot disagree.
package reference
