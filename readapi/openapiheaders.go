package readapi

// headers describes the headers of responses.
func headers() object {
	number := object{{"type", "integer"}, {"minimum", 0}}
	header := func(words string, required bool, schema object, example any) object {
		return object{{"description", words}, {"required", required}, {"schema", schema}, {"example", example}}
	}
	anyText := object{{"type", "string"}}
	return object{
		{headerRequestID, header("The id of this request.", true, object{{"type", "string"}, {"pattern", `^[A-Za-z0-9._-]{1,64}$`}}, "req_3f2c9a1d5b7e4c0a8d6f1e2b3c4d5e6f")},
		{headerLimit, header("Requests allowed in a clock minute.", true, number, 120)},
		{headerRemaining, header("Requests left in this minute.", true, number, 117)},
		{headerReset, header("Seconds until the minute ends.", true, number, 42)},
		{headerRate, header("What is left, in the form of the IETF draft.", true, anyText, `"key";r=117;t=42`)},
		{headerPolicy, header("The limit, in the form of the IETF draft.", true, anyText, `"key";q=120;w=60`)},
		{headerCacheControl, header("private, no-cache beside an ETag, else private, no-store.", true, object{{"type", "string"}, {"enum", []string{cachePrivate[0], cacheNever[0]}}}, cachePrivate[0])},
		{headerNoSniff, header("Always nosniff.", true, object{{"type", "string"}, {"const", noSniff[0]}}, noSniff[0])},
		{headerETag, header("Names this answer, for If-None-Match. Strong; each encoding has its own.", true, anyText, `"0dGvpk6SZxbQXJ4s0W2q"`)},
		{headerVary, header("Answers differ by the encodings that the caller accepts.", false, anyText, varyEncoding[0])},
		{headerRetryAfter, header("Seconds to wait before the next try.", true, number, 42)},
		{headerChallenge, header("How to send a key.", true, object{{"type", "string"}, {"const", challenge[0]}}, challenge[0])},
	}
}

// responseHeaders refers to the headers that every response has, and to the
// ETag of those that have one.
func responseHeaders(tagged bool) object {
	h := object{}
	for _, name := range []string{
		headerRequestID, headerLimit, headerRemaining, headerReset, headerRate, headerPolicy, headerCacheControl, headerNoSniff, headerVary,
	} {
		h = h.with(name, reference("headers", name))
	}
	if tagged {
		h = h.with(headerETag, reference("headers", headerETag))
	}
	return h
}
