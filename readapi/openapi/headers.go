package openapi

import (
	"github.com/ledgerfeed/ledgerfeed/readapi/answer"
	"github.com/ledgerfeed/ledgerfeed/readapi/route"
)

// headers describes the headers of responses.
func headers() object {
	number := object{{"type", "integer"}, {"minimum", 0}}
	header := func(description string, required bool, schema object, example any) object {
		return object{{"description", description}, {"required", required}, {"schema", schema}, {"example", example}}
	}
	anyText := object{{"type", "string"}}
	return object{
		{answer.HeaderRequestID, header("The id of this request.", true, object{{"type", "string"}, {"pattern", `^[A-Za-z0-9._-]{1,64}$`}}, "req_3f2c9a1d5b7e4c0a8d6f1e2b3c4d5e6f")},
		{answer.HeaderLimit, header("Requests allowed in a clock minute.", true, number, 120)},
		{answer.HeaderRemaining, header("Requests left in this minute.", true, number, 117)},
		{answer.HeaderReset, header("Seconds until the minute ends.", true, number, 42)},
		{answer.HeaderRate, header("What is left, in the form of the IETF draft.", true, anyText, `"key";r=117;t=42`)},
		{answer.HeaderPolicy, header("The limit, in the form of the IETF draft.", true, anyText, `"key";q=120;w=60`)},
		{answer.HeaderCacheControl, header("private, no-cache beside an ETag, that of a tile says that it never changes; else private, no-store.", true, anyText.extensible([]string{answer.CacheRevalidate, answer.CacheImmutable, answer.CacheNever}), answer.CacheRevalidate)},
		{answer.HeaderNoSniff, header("Always nosniff.", true, object{{"type", "string"}, {"const", answer.NoSniff}}, answer.NoSniff)},
		{answer.HeaderETag, header("Names this answer, for If-None-Match. Strong; each encoding has its own.", true, anyText, `"0dGvpk6SZxbQXJ4s0W2q"`)},
		{answer.HeaderLogPosition, header("The position of the workspace's log that this answer is of: everything up to it is in the answer, and nothing after it. Positions count the log's entries, 1, 2, 3, …; entries that the API does not show count, too.", true, object{{"type", "integer"}, {"format", "int64"}, {"minimum", 0}}, 48213)},
		{answer.HeaderApplied, header("wait=N: the preference of the request was followed, and the page was waited for if there was nothing on it. Absent although it was preferred: too many requests wait already, so wait on your side before you ask again.", false, object{{"type", "string"}, {"pattern", `^wait=([1-9]|[12]\d|30)$`}}, "wait=30")},
		{answer.HeaderEventIndex, header("The index of the first event of the page in the tree that the key sees (see getCheckpoint): how many events are before it since the first one. Absent with type, on pages without events, and while the tree is far behind.", false, object{{"type", "integer"}, {"format", "int64"}, {"minimum", 0}}, 1042)},
		{answer.HeaderLink, header("The address of the next page, with the relation next (RFC 8288). Absent when has_more is false.", false, anyText, `<https://api.example.com/v1/invoices?cursor=`+exampleCursor+`>; rel="next"`)},
		{answer.HeaderVary, header("Answers differ by the encodings that the caller accepts, lists of rows by the forms, and what is of the tree of the events by the key.", false, anyText, answer.VaryEncoding)},
		{answer.HeaderNextCursor, header("Of a whole list alone (application/x-ndjson, text/csv): where it goes on, as next_cursor of a page. The same comes as a trailer field when the list has ended.", false, anyText, exampleCursor)},
		{answer.HeaderRetryAfter, header("Seconds to wait before the next try. Only with 429 and 503.", false, number, 42)},
	}
}

// answerHeaders refers to the headers of a route's response 200.
func answerHeaders(r *route.Route) object {
	h := object{}
	if r.Kind == route.KeyInfo {
		h = headersOfAll()
	}
	h = h.with(answer.HeaderETag, reference("headers", answer.HeaderETag))
	if r.HasPosition() {
		h = h.with(answer.HeaderLogPosition, reference("headers", answer.HeaderLogPosition))
	}
	if r.CanWait() {
		h = h.with(answer.HeaderApplied, reference("headers", answer.HeaderApplied))
	}
	return h
}

// headersOfAll refers to the headers that every response has. They stand at one operation, and in words
// for the others: a generated client has code for each header of each response.
func headersOfAll() object {
	h := object{}
	for _, name := range []string{
		answer.HeaderRequestID, answer.HeaderLimit, answer.HeaderRemaining, answer.HeaderReset, answer.HeaderRate, answer.HeaderPolicy, answer.HeaderCacheControl, answer.HeaderNoSniff, answer.HeaderVary,
	} {
		h = h.with(name, reference("headers", name))
	}
	return h
}
