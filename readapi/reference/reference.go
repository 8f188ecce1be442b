package reference

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"slices"

	"github.com/ledgerfeed/ledgerfeed/internal/signaturecheck"
	"github.com/ledgerfeed/ledgerfeed/readapi/answer"
	"github.com/ledgerfeed/ledgerfeed/readapi/openapi"
)

var (
	//go:embed page.html
	pageTemplate string
	//go:embed guides.html
	guidesTemplate string
	//go:embed error.html
	errorTemplate string
	//go:embed keys.html
	keysTemplate string
	//go:embed reference.css
	style string
	//go:embed reference.js
	script string
)

// Page writes the reference as one HTML page, with its style in one <style> element and its script
// in one <script>. The page loads nothing else and can be read without the script.
func Page(info openapi.Info) ([]byte, error) {
	shown, err := newPage(info)
	if err != nil {
		return nil, err
	}
	return write("page", shown)
}

// ErrorPage writes the page about the errors of a status. The type of a problem document links to
// it (docs/contract/service.md, "Errors").
func ErrorPage(status int) ([]byte, error) { return write("error", newError(status)) }

// Policy returns the Content-Security-Policy of a page, which allows its own style and script and
// nothing else.
func Policy(page []byte) string {
	hash := func(tag string) string {
		_, rest, found := bytes.Cut(page, []byte("<"+tag+">"))
		if !found {
			return "'none'"
		}
		text, _, _ := bytes.Cut(rest, []byte("</"+tag+">"))
		sum := sha256.Sum256(text)
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	return "default-src 'none'; style-src " + hash("style") + "; script-src " + hash("script") + "; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

// write executes a template.
func write(name string, shown any) ([]byte, error) {
	templates := template.New("")
	for name, text := range map[string]string{"page": pageTemplate, "guides": guidesTemplate, "error": errorTemplate, "keys": keysTemplate, "style": style, "script": script} {
		if _, err := templates.New(name).Parse(text); err != nil {
			return nil, fmt.Errorf("read the template of the API's reference: %w", err)
		}
	}
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, name, shown); err != nil {
		return nil, fmt.Errorf("write the API's reference: %w", err)
	}
	return b.Bytes(), nil
}

// Statuses returns the statuses of the API's errors.
func Statuses() []int {
	return []int{
		http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusTooManyRequests, http.StatusRequestHeaderFieldsTooLarge, http.StatusInternalServerError, http.StatusServiceUnavailable,
	}
}

// page is the data of the reference page.
type page struct {
	openapi.Info

	Objects    []object
	Groups     []group
	EventTypes []eventType
	Checks     []signaturecheck.Sample // of signatures
	Follow     []sample                // a program that follows a list
	Wait       []sample                // a program that waits for events
	Position   []sample                // a program that reads from at least a position
	Whole      []sample                // a program that reads a whole list
	Errors     []apiError
}

// apiError describes the errors of one status.
type apiError struct {
	Status int
	Title  string
	When   string // and what to do
	Codes  []answer.CodeOfStatus
}

func newError(status int) apiError {
	e := apiError{Status: status, Title: answer.Title(status), When: openapi.ErrorDescription(status)}
	for _, c := range answer.Codes() {
		if slices.Contains(c.Statuses, status) {
			e.Codes = append(e.Codes, c)
		}
	}
	return e
}

func newPage(info openapi.Info) (*page, error) {
	checks, err := signaturecheck.Samples(info.Brand.SignatureHeader())
	if err != nil {
		return nil, fmt.Errorf("the reference's samples: %w", err)
	}
	p := &page{Info: info, Checks: checks}
	if p.Objects, err = objects(); err != nil {
		return nil, err
	}
	if p.EventTypes, err = eventTypes(); err != nil {
		return nil, err
	}
	if p.Groups, err = groups(info.BaseURL); err != nil {
		return nil, err
	}
	if p.Follow, err = followSamples(info.BaseURL); err != nil {
		return nil, err
	}
	if p.Wait, err = programs("wait", info.BaseURL+"/v1/events"); err != nil {
		return nil, err
	}
	if p.Position, err = programs("position", info.BaseURL+"/v1/invoices"); err != nil {
		return nil, err
	}
	if p.Whole, err = wholeSamples(info.BaseURL); err != nil {
		return nil, err
	}
	for _, status := range Statuses() {
		p.Errors = append(p.Errors, newError(status))
	}
	return p, nil
}
