package webhooks

import (
	"embed"
	"fmt"
	"strings"
)

//go:embed snippets
var snippetFiles embed.FS

// snippet is code that checks a signature, to be copied.
type snippet struct {
	Language string
	File     string
	Code     string
}

// snippets returns the code in each language, for the name of the header.
func snippets(header string) ([]snippet, error) {
	list := []snippet{
		{Language: "Node.js", File: "node.js"}, {Language: "Python", File: "python.py"},
		{Language: "Go", File: "go.txt"}, {Language: "PHP", File: "php.php"},
	}
	for i := range list {
		code, err := snippetFiles.ReadFile("snippets/" + list[i].File)
		if err != nil {
			return nil, fmt.Errorf("cannot read the signature check for %s: %w", list[i].Language, err)
		}
		list[i].Code = strings.ReplaceAll(string(code), "SERVICE-Signature", header)
	}
	return list, nil
}
