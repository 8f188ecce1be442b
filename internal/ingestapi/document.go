package ingestapi

import _ "embed"

// document is the OpenAPI document. A test compares it with what the API answers.
//
//go:embed openapi.json
var document []byte
