// Package openapi describes the API as an OpenAPI 3.1 document. It is built from the route table
// and the fields of package domain, so it cannot claim what the API does not do.
package openapi
