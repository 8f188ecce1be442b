package settings

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/caarlos0/env/v11"

	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

// Where a value comes from, if not from a file.
const (
	FromDefault     = "default"
	FromEnvironment = "environment"
)

// InForce is a setting with the value that is in force.
type InForce struct {
	Variable string `json:"variable"`
	Key      string `json:"key"`    // in a file
	Value    string `json:"value"`  // as it was written; empty for a secret
	From     string `json:"from"`   // FromDefault, FromEnvironment, or the file and the line
	Secret   bool   `json:"secret"` // the value is not shown
}

// List returns all settings that Read read from an environment and a file, in the order of README.
func (s *Settings) List(environ []string, f *File) (list []InForce) {
	environment := env.ToMap(environ)
	values := f.variables(environment)
	for field := range reflect.TypeFor[Settings]().Fields() {
		tag := field.Tag
		variable := tag.Get("env")
		one := InForce{Variable: variable, Key: keyOf(variable), Value: values[variable], From: FromEnvironment, Secret: tag.Get("secret") != ""}
		if place := f.place(variable, environment); place != "" {
			one.From = place
		}
		if one.Value == "" {
			one.Value, one.From = s.byDefault(variable, tag.Get("envDefault")), FromDefault
		}
		if one.Secret {
			one.Value = ""
		}
		list = append(list, one)
	}
	return list
}

// Mistyped finds variables of an environment that are no settings but look like one. It returns a
// sentence for each, which names the variable and the setting that may have been meant.
func Mistyped(environ []string) (list []string) {
	const prefix = "LEDGERFEED_"
	var known []string
	for field := range reflect.TypeFor[Settings]().Fields() {
		if name, ok := strings.CutPrefix(field.Tag.Get("env"), prefix); ok {
			known = append(known, name)
		}
	}
	for variable := range env.ToMap(environ) {
		name, ok := strings.CutPrefix(variable, prefix)
		if !ok || slices.Contains(known, name) {
			continue
		}
		if meant, ok := texts.Similar(name, known); ok {
			list = append(list, fmt.Sprintf("there is no setting %s; did you mean %s?", variable, prefix+meant))
		}
	}
	slices.Sort(list)
	return list
}

// byDefault returns the value of a setting that is not set.
func (s *Settings) byDefault(variable, written string) string {
	switch variable {
	case "LEDGERFEED_BASE_URL":
		return s.BaseURL
	case "LEDGERFEED_DOCS_URL":
		return s.DocsURL
	case "LEDGERFEED_CONSOLE_URL":
		return s.ConsoleAddress()
	case "LEDGERFEED_BRAND":
		return s.Brand.String()
	}
	return written
}
