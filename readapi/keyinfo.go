package readapi

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// keyInfo is the body of /v1/me (docs/contract/service.md, "Key information").
type keyInfo struct {
	Company struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	} `json:"company"`
	Key struct {
		Name   string `json:"name"`
		Prefix string `json:"prefix"`
	} `json:"key"`
	Scopes             []string `json:"scopes"`
	RateLimitPerMinute int      `json:"rate_limit_per_minute"`
}

// answerKeyInfo answers with the key that makes the request.
func answerKeyInfo(q *request) error {
	var info keyInfo
	info.Company.ID, info.Company.Name = q.key.WorkspaceID, q.key.WorkspaceName
	info.Key.Name, info.Key.Prefix = q.key.Name, q.key.Prefix
	info.Scopes = q.key.Permissions.Strings()
	info.RateLimitPerMinute = q.key.RateLimit
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(info); err != nil {
		return fmt.Errorf("write the key information: %w", err)
	}
	q.rows = 1
	body := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	return q.answerWith(body, version{name: "me " + string(body), position: noPosition}) // nothing else says when it changes
}

// answerDocument answers with the OpenAPI document.
func answerDocument(q *request) error {
	return q.answerWith(q.api.document, version{name: "document", position: noPosition})
}
