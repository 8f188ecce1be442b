// Package route is the table of the API's endpoints as data: what each is called,
// who may call it, which parameters it takes and what it answers
// (docs/contract/service.md, "Endpoints"). The checks of a request, the statements
// that read rows, and the OpenAPI document are all made from a row of [Table], so
// that they cannot disagree. There is no HTTP here.
package route
