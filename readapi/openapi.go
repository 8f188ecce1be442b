package readapi

// Description is what the description of the API is about.
type Description struct {
	Brand            string // stands in the headers of webhooks
	BaseURL, DocsURL string // without a slash at the end
}

func describeAPI(*routes, Description) ([]byte, error) { return []byte("{}"), nil }
