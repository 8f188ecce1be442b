// Package openapi describes the API: as an OpenAPI 3.1 document for programs and as
// an HTML page for people. Both are made from the route table and the fields of
// package domain, so neither can say what the API does not do.
package openapi
