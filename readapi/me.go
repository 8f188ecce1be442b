package readapi

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// me is the body of /v1/me (docs/contract/service.md, "Key information").
type me struct {
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

func (c *call) answerMe() error {
	var m me
	m.Company.ID, m.Company.Name = c.key.WorkspaceID, c.key.WorkspaceName
	m.Key.Name, m.Key.Prefix = c.key.Name, c.key.Prefix
	m.Scopes = c.key.Permissions.Strings()
	m.RateLimitPerMinute = c.key.RateLimit
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(m); err != nil {
		return fmt.Errorf("write the key information: %w", err)
	}
	c.rows = 1
	body := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	c.write(body, "me "+string(body)) // nothing else tells when it changes
	return nil
}

func (c *call) versionOfDocument() (string, error) { return "document", nil }

func (c *call) answerDocument() error {
	c.write(c.api.document, "document")
	return nil
}
