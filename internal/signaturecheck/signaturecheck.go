// Package signaturecheck has sample code in several languages that checks the signature of a
// webhook's message (docs/contract/service.md, "Signature").
package signaturecheck

import (
	"embed"
	"fmt"
	"strings"
)

//go:embed samples
var files embed.FS

// Sample is a function that checks a signature, and how to call it.
type Sample struct {
	Language string
	File     string
	Code     string
}

// Samples returns the code in each language. header is the name of the signature's header.
func Samples(header string) ([]Sample, error) {
	list := []Sample{
		{Language: "Node.js", File: "node.js"}, {Language: "Python", File: "python.py"},
		{Language: "Go", File: "go.txt"}, {Language: "PHP", File: "php.php"},
	}
	for i := range list {
		code, err := files.ReadFile("samples/" + list[i].File)
		if err != nil {
			return nil, fmt.Errorf("cannot read the signature check for %s: %w", list[i].Language, err)
		}
		list[i].Code = strings.ReplaceAll(string(code), "SERVICE-Signature", header)
	}
	return list, nil
}
