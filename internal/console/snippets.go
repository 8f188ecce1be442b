package console

import (
	"embed"
	"fmt"
	"strings"
)

//go:embed snippets
var snippetFiles embed.FS

// snippet is a signature check to copy.
type snippet struct {
	Language string
	File     string
	Code     string
}

// snippets gives the signature check in each language, for a header's name.
func snippets(header string) ([]snippet, error) {
	list := []snippet{
		{Language: "Node.js", File: "node.js"}, {Language: "Python", File: "python.py"},
		{Language: "Go", File: "go.txt"}, {Language: "PHP", File: "php.php"},
	}
	for i := range list {
		code, err := snippetFiles.ReadFile("snippets/" + list[i].File)
		if err != nil {
			return nil, fmt.Errorf("read the signature check for %s: %w", list[i].Language, err)
		}
		list[i].Code = strings.ReplaceAll(string(code), "SERVICE-Signature", header)
	}
	return list, nil
}
