package readapi

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/answer"
	"github.com/ledgerfeed/ledgerfeed/readapi/route"
)

// check turns a check into middleware. A request that fails gets the check's error as its answer
// and goes no further.
func check(passes func(*request) error) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			q := requestOf(r)
			if err := passes(q); err != nil {
				q.refuse(err)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// handler is an endpoint's handler; its error becomes the answer.
type handler func(*request) error

// ServeHTTP answers a request that passed all checks.
func (h handler) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	q := requestOf(r)
	if err := h(q); err != nil {
		q.refuse(err)
	}
}

// checkSize refuses headers above answer.MaxHeaderBytes that the server still read; see NewServer.
func checkSize(q *request) error {
	size := len(q.http.Method) + len(q.http.RequestURI) + len(q.http.Host)
	for name, values := range q.http.Header {
		for _, v := range values {
			size += len(name) + len(v) + len(": \r\n")
		}
	}
	if size > answer.MaxHeaderBytes {
		return answer.HeadersTooLarge()
	}
	return nil
}

func checkMethod(q *request) error {
	switch q.http.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return nil
	}
	return answer.MethodNotAllowed()
}

func checkURL(q *request) error {
	if q.api.keys.inURL(q.http.RequestURI, q.http.URL.RawQuery) {
		return answer.KeyInURL()
	}
	return nil
}

// identify authenticates the request's key. A missing or invalid key is not an error yet:
// checkSlowDown and checkKey decide how to answer it.
func identify(q *request) error {
	authenticate := q.api.cfg.Keys.Authenticate
	if !q.api.cfg.Limiter.Refusals(q.address).OK {
		authenticate = q.api.cfg.Keys.AuthenticateSlowly
	}
	key, err := authenticate(q, bearerToken(q.http.Header.Values("Authorization")))
	switch {
	case err == nil:
		q.key, q.visible = key, visibilityOf(key.Permissions)
		q.proveConnection()
		q.known()
	case !errors.Is(err, access.ErrRefused):
		return err
	case !errors.As(err, &q.refused):
		q.refused = &access.RefusedError{Reason: access.ReasonMalformed}
	}
	return nil
}

// keyAgain checks the key of a long-running request again. If the key is no longer valid, the error
// is a 401.
func (q *request) keyAgain(ctx context.Context) (*access.Key, error) {
	key, err := q.api.cfg.Keys.Authenticate(ctx, bearerToken(q.http.Header.Values("Authorization")))
	if refused, ok := errors.AsType[*access.RefusedError](err); ok {
		return nil, answer.Unauthorized(refused.Reason, refused)
	}
	return key, err
}

// KeyOf returns the key of a request as it was sent, which may be no key at all.
func KeyOf(r *http.Request) string { return bearerToken(r.Header.Values("Authorization")) }

// bearerToken reads the key from the Authorization headers. The scheme may be in any case. Without
// a header the result is empty. With several headers or another scheme it is a text that is not a
// valid key.
func bearerToken(headers []string) string {
	if len(headers) == 0 {
		return ""
	}
	if len(headers) > 1 {
		return "several"
	}
	scheme, key, _ := strings.Cut(headers[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "another scheme"
	}
	return strings.Trim(key, " ")
}

// checkSlowDown counts refused keys by address and refuses an address that sends too many. A valid
// key passes from any address.
func checkSlowDown(q *request) error {
	switch {
	case q.key != nil:
		return nil
	case q.refused.Reason == access.ReasonMissing:
		q.countRefusals() // no key was sent, so none is refused
	default:
		q.out.Policy, q.out.Allowance = answer.PolicyAddress, q.api.cfg.Limiter.Refuse(q.address)
	}
	if !q.out.Allowance.OK {
		return answer.TooManyRefusedKeys(q.out.Allowance.Reset)
	}
	return nil
}

func checkKey(q *request) error {
	if q.key == nil {
		return answer.Unauthorized(q.refused.Reason, q.refused)
	}
	return nil
}

func checkRate(q *request) error {
	q.out.Policy, q.out.Allowance = answer.PolicyKey, q.api.cfg.Limiter.Take(q.key)
	if !q.out.Allowance.OK {
		return answer.TooManyRequests(q.out.Allowance)
	}
	return nil
}

// checkMoved refuses requests about a workspace that has moved to another database.
func checkMoved(q *request) error {
	if m := q.key.Move; m != nil && m.Away {
		return answer.Moved(m.To)
	}
	return nil
}

// decodePath lets chi route the decoded path, so that all spellings of a path reach the same
// endpoint. A path is unknown if it has an escaped slash, which does not separate segments, an
// empty segment, or a slash at the end.
func decodePath(next http.Handler) http.Handler {
	unknown := handler(answerUnknownPath)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, ok := decodedPath(r.URL.EscapedPath())
		if !ok {
			unknown.ServeHTTP(w, r)
			return
		}
		chi.RouteContext(r.Context()).RoutePath = path
		next.ServeHTTP(w, r)
	})
}

func decodedPath(escaped string) (path string, ok bool) {
	path = escaped
	if strings.Contains(escaped, "%") {
		if strings.Contains(strings.ToLower(escaped), "%2f") {
			return "", false
		}
		var err error
		if path, err = url.PathUnescape(escaped); err != nil {
			return "", false
		}
	}
	return path, strings.HasPrefix(path, "/") && !strings.HasSuffix(path, "/") && !strings.Contains(path, "//")
}

// answerUnknownPath is the mux's NotFound.
func answerUnknownPath(*request) error { return answer.UnknownPath() }

// enter stores the endpoint and the path's variables in the request, and chooses the form of the answer.
func (e *endpoint) enter(next http.Handler) http.Handler { return e.enterWith(chooseForm, next) }

// enterAs is enter for a path that names the form of a whole list.
func (e *endpoint) enterAs(form answer.Form) func(next http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return e.enterWith(func(q *request) { q.form = form }, next)
	}
}

func (e *endpoint) enterWith(choose func(*request), next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := requestOf(r)
		q.endpoint, q.pathID = e, chi.URLParam(r, "id")
		if e.OfTree() {
			q.tile = parseTile(chi.URLParam(r, "level"), chi.URLParam(r, "*"))
			q.out.Media, q.out.ByKey, q.out.Immutable = e.MediaType(), true, e.Kind == route.Tile
		}
		choose(q)
		next.ServeHTTP(w, r)
	})
}

// answerMethods answers OPTIONS.
func answerMethods(q *request) error {
	q.out.Methods()
	return nil
}

func checkPermission(q *request) error {
	if p := q.endpoint.Permission; p != "" && !q.key.Permissions.Has(p) {
		return answer.LacksPermission(p)
	}
	return nil
}

func checkParams(q *request) error {
	noLimit := ""
	if q.isWhole() {
		noLimit = "is not a parameter of a whole list (" + q.form.ContentType() + "), which has every row in one answer; " +
			"leave it out, or ask " + q.endpoint.Path + " with Accept: application/json for pages"
	}
	errs := q.params.parse(q.endpoint.Params, q.http.URL.RawQuery, noLimit)
	cursor := checkCursor(q, errs)
	if cursor != nil {
		errs = addError(errs, "cursor", cursor.Errors[0].Message)
	}
	errs = checkDays(q, errs)
	errs = q.wait.accept(q, errs)
	switch {
	case len(errs) == 0:
		return nil
	case cursor != nil && len(errs) == 1:
		return cursor
	}
	return answer.WrongParams(errs)
}

// checkDays adds faults for both ends of a range of days that begins after its end.
func checkDays(q *request, faults []answer.ParamError) []answer.ParamError {
	from, to := q.params.get(q.endpoint.from), q.params.get(q.endpoint.to)
	isDay := func(e answer.ParamError) bool { return e.Field == "date_from" || e.Field == "date_to" }
	if to == "" || from <= to || slices.ContainsFunc(faults, isDay) {
		return faults
	}
	faults = addError(faults, "date_from", "must not be after date_to, which is "+to)
	return addError(faults, "date_to", "must not be before date_from, which is "+from)
}

// checkCursor returns what is wrong with the request's cursor. It returns nil if the cursor is
// valid or missing, or if faults already has it.
func checkCursor(q *request, faults []answer.ParamError) *answer.Error {
	if q.params.get(q.endpoint.cursor) == "" || slices.ContainsFunc(faults, func(e answer.ParamError) bool { return e.Field == "cursor" }) {
		return nil
	}
	saw, _, ok := q.openCursor()
	switch {
	case !ok && q.isWhole():
		return answer.WrongCursor(answer.CodeCursorInvalid, "does not belong to this whole list: it was altered, it has the form of an earlier version, the service was set up anew, it is of pages with a limit, "+
			"or another parameter is not what it was when the cursor was given; keep all others the same, go on in pages with their limit, or start again without a cursor")
	case !ok:
		return answer.WrongCursor(answer.CodeCursorInvalid, "does not belong to this request: it was altered, it has the form of an earlier version, the service was set up anew, or another parameter is not "+
			"what it was when the cursor was given; keep all others the same, or start again without a cursor")
	case q.endpoint.shows(q.visible).exceeds(saw):
		return answer.WrongCursor(answer.CodeCursorPermissions, "was given to a key that sees less: rows or fields that this key may see were left out before, "+
			"so start again without a cursor")
	}
	return nil
}

// chooseForm sets the form that the caller accepts for a list of rows.
func chooseForm(q *request) {
	switch e := q.endpoint; {
	case e.StreamsWhole() && q.api.cfg.WholeLists.Pool != nil:
		q.out.Forms = true
		q.form = answer.AcceptedForm(q.http.Header.Values("Accept"))
	case e.Kind == route.Totals:
		q.out.Forms = true
		if answer.AcceptedForm(q.http.Header.Values("Accept")) == answer.CSV {
			q.form, q.out.Media = answer.CSV, answer.CSV.ContentType()
		}
	}
}

// isWhole reports whether the answer is a whole list.
func (q *request) isWhole() bool { return q.form != answer.JSON && q.endpoint.StreamsWhole() }
