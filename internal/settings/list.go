package settings

import (
	"reflect"

	"github.com/caarlos0/env/v11"
)

// Where a value comes from, besides a place in a file.
const (
	FromDefault     = "default"
	FromEnvironment = "environment"
)

// InForce is one setting as it is in force.
type InForce struct {
	Variable string `json:"variable"`
	Key      string `json:"key"`    // in a file
	Value    string `json:"value"`  // as it was written; empty for a secret
	From     string `json:"from"`   // FromDefault, FromEnvironment, or the file and the line
	Secret   bool   `json:"secret"` // the value is not shown
}

// List lists all settings that Read read from an environment and a file, in the order
// of README.
func (s *Settings) List(environ []string, f *File) (list []InForce) {
	environment := env.ToMap(environ)
	values := f.variables(environment)
	fields := reflect.TypeFor[Settings]()
	for i := range fields.NumField() {
		tag := fields.Field(i).Tag
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

// byDefault is the value of a setting that is not set.
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
