// Package reference writes the documentation of the API for people, a page for each subject: guides,
// each object with the meaning of its fields and its operations with code to run, the types of
// events, webhooks and errors. It is made from the same routes, fields and catalogue as the OpenAPI
// document (package openapi), so that they cannot disagree. The content of a page is HTML, from the
// templates in pages; its Markdown, its title and its part of the search's index are read from that.
package reference
