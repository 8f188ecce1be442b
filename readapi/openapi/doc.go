// Package openapi describes the API as an OpenAPI 3.1 document, and the entries that producers
// append as JSON Schema. It is built from the route table and the fields of package domain, so it
// cannot claim what the program does not do.
package openapi
