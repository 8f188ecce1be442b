package settings

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

// File is a YAML file with settings. Each key is the name of a variable without LEDGERFEED_, in
// lower case. The environment takes precedence.
type File struct {
	name   string
	values map[string]fileValue // by variable
}

type fileValue struct {
	text string
	line int
}

// FileError lists what is wrong in a settings file.
type FileError struct{ Faults []string }

func (e *FileError) Error() string { return strings.Join(e.Faults, "\n") }

// maxFile bounds a settings file, in bytes.
const maxFile = 1 << 20

// ReadFile reads a settings file. The error names the file, and is a *FileError if lines in it are
// wrong.
func ReadFile(path string) (*File, error) {
	text, err := readText(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the settings: %w", err)
	}
	f := &File{name: filepath.Base(path), values: map[string]fileValue{}}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		if _, form := texts.Plain(text); form != nil { // yaml itself reads UTF-16 with a byte order mark
			return nil, &FileError{[]string{fmt.Sprintf("%s cannot be read: %v", f.name, form)}}
		}
		return nil, &FileError{[]string{fmt.Sprintf("%s is no YAML: %s", f.name, strings.TrimPrefix(err.Error(), "yaml: "))}}
	}
	if len(document.Content) == 0 {
		return f, nil // empty, or comments only
	}
	if faults := f.read(document.Content[0]); len(faults) > 0 {
		return nil, &FileError{faults}
	}
	return f, nil
}

func readText(path string) (text []byte, err error) {
	file, err := os.Open(path) //nolint:gosec // the path is the operator's
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	text, err = io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	return text, err
}

// read fills in the values of a file and returns what is wrong.
func (f *File) read(root *yaml.Node) (faults []string) {
	fault := func(at *yaml.Node, format string, args ...any) {
		faults = append(faults, fmt.Sprintf("%s, line %d: ", f.name, at.Line)+fmt.Sprintf(format, args...))
	}
	if root.Kind != yaml.MappingNode {
		fault(root, "want settings such as listen: 127.0.0.1:8080, one a line")
		return faults
	}
	known := keys()
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		field, ok := known[key.Value]
		if !ok {
			fault(key, "there is no setting %s%s", key.Value, texts.DidYouMean(key.Value, slices.Sorted(maps.Keys(known))))
			continue
		}
		variable := field.Tag.Get("env")
		if before, twice := f.values[variable]; twice {
			fault(key, "%s stands in line %d already", key.Value, before.line)
			continue
		}
		text, err := textOf(value, field)
		if err != nil {
			fault(value, "%s: %v", key.Value, err)
			continue
		}
		f.values[variable] = fileValue{text, value.Line}
	}
	return faults
}

var errValue = errors.New("want a value, or a list of values")

// textOf returns a value as it would be in the environment. Lists are joined.
func textOf(value *yaml.Node, field reflect.StructField) (string, error) {
	if value.Kind == yaml.AliasNode {
		value = value.Alias
	}
	if value.Kind == yaml.ScalarNode {
		if value.Tag == "!!null" {
			return "", nil
		}
		return value.Value, nil
	}
	if value.Kind != yaml.SequenceNode {
		return "", errValue
	}
	separator := field.Tag.Get("list")
	if separator == "" {
		separator = ","
	}
	parts := make([]string, len(value.Content))
	for i, part := range value.Content {
		if part.Kind != yaml.ScalarNode {
			return "", errValue
		}
		parts[i] = part.Value
	}
	return strings.Join(parts, separator), nil
}

// keyOf returns a variable's name in a file.
func keyOf(variable string) string {
	return strings.ToLower(strings.TrimPrefix(variable, "LEDGERFEED_"))
}

// keys returns the fields of Settings by their names in a file.
func keys() map[string]reflect.StructField {
	m := map[string]reflect.StructField{}
	for field := range reflect.TypeFor[Settings]().Fields() {
		m[keyOf(field.Tag.Get("env"))] = field
	}
	return m
}

// variables returns the values of the file, overridden by the environment. Empty values
// count as unset.
func (f *File) variables(environment map[string]string) map[string]string {
	all := map[string]string{}
	if f != nil {
		for variable, v := range f.values {
			all[variable] = v.text
		}
	}
	for variable, value := range environment {
		if value != "" {
			all[variable] = value
		}
	}
	return all
}

// place returns the file and line of a variable's value; empty if the value is not from the file.
func (f *File) place(variable string, environment map[string]string) string {
	if f == nil || environment[variable] != "" {
		return ""
	}
	v, ok := f.values[variable]
	if !ok {
		return ""
	}
	return fmt.Sprintf("%s, line %d", f.name, v.line)
}
