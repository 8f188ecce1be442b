package readapi

import (
	"errors"
	"net/http"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/readapi/access"
)

// allowed are the methods of every path.
const allowed = "GET, HEAD, OPTIONS"

// run takes a request through the checks, in the order of docs/contract/decisions.md,
// "Requests", and answers it. Every path goes through the same chain; what
// differs comes from its row of the route table.
func (c *call) run() error {
	for _, check := range [...]func(*call) error{
		(*call).checkSize,
		(*call).checkMethod,     // 1
		(*call).checkAddress,    // 2
		(*call).checkKey,        // 3 and 4
		(*call).checkRate,       // 5
		(*call).checkPath,       // 6
		(*call).checkPermission, // 7
		(*call).checkParams,     // 8
	} {
		if err := check(c); err != nil {
			return err
		}
		if c.status != 0 { // OPTIONS is answered on the way
			return nil
		}
	}
	if done, err := c.answerKnown(); done || err != nil {
		return err
	}
	return c.route.answer(c) // 9
}

// checkSize refuses headers that are too large while the server still lets a
// handler answer; see MaxHeaderBytes.
func (c *call) checkSize() error {
	size := len(c.r.Method) + len(c.r.RequestURI) + len(c.r.Host)
	for name, values := range c.r.Header {
		for _, v := range values {
			size += len(name) + len(v) + len(": \r\n")
		}
	}
	if size > MaxHeaderBytes {
		c.countAddress()
		return headersTooLarge()
	}
	return nil
}

// countAddress lets the headers speak of the address's refused keys, as they do
// until the key is known.
func (c *call) countAddress() {
	c.allowance, c.policy = c.api.cfg.Limiter.Refusals(c.address), policyAddress
}

func (c *call) checkMethod() error {
	switch c.r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return nil
	}
	c.countAddress()
	return methodNotAllowed()
}

func (c *call) checkAddress() error {
	if c.api.keys.inAddress(c.r.RequestURI, c.r.URL.RawQuery) {
		c.countAddress()
		return keyInURL()
	}
	return nil
}

// checkKey finds the key. Who has none is told apart only by how many refused
// keys its address has sent; a valid key passes from any address.
func (c *call) checkKey() error {
	key, err := c.api.cfg.Keys.Authenticate(c.ctx, bearer(c.r.Header.Values("Authorization")))
	if err == nil {
		c.key, c.sight = key, sightOf(key.Permissions)
		return nil
	}
	if !errors.Is(err, access.ErrRefused) {
		c.countAddress()
		return err
	}
	reason := access.ReasonMalformed
	var refused *access.RefusedError
	if errors.As(err, &refused) {
		reason = refused.Reason
	}
	if reason == access.ReasonMissing {
		c.countAddress() // no key was sent, so none is refused
	} else {
		c.allowance, c.policy = c.api.cfg.Limiter.Refuse(c.address), policyAddress
	}
	if !c.allowance.OK {
		return tooManyRefusedKeys(c.allowance.Reset)
	}
	p := unauthorized(reason)
	p.cause = err
	return p
}

// bearer reads the key out of the header: one header, scheme in any case. Empty
// when there is none; another scheme gives a text that is no key.
func bearer(headers []string) string {
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

func (c *call) checkRate() error {
	c.allowance, c.policy = c.api.cfg.Limiter.Take(c.key), policyKey
	if !c.allowance.OK {
		return tooManyRequests(c.allowance)
	}
	return nil
}

func (c *call) checkPath() error {
	if c.route, c.id = c.api.routes.find(c.r.URL.EscapedPath()); c.route == nil {
		return unknownPath()
	}
	if c.r.Method == http.MethodOptions {
		c.writeOptions()
	}
	return nil
}

func (c *call) checkPermission() error {
	if p := c.route.permission; p != "" && !c.key.Permissions.Has(p) {
		return lacksPermission(p)
	}
	return nil
}

func (c *call) checkParams() error {
	var errs []paramError
	c.given, errs = readParams(c.route.params, c.r.URL.RawQuery)
	if i := c.route.cursor; c.given.get(i) != "" {
		if _, ok := c.api.cursors.open(c.circumstances(), c.given.get(i)); !ok {
			errs = addError(errs, "cursor", "does not belong to this request: it was altered, or another parameter is not "+
				"what it was when the cursor was given; keep all others the same, or begin anew without a cursor")
		}
	}
	if len(errs) > 0 {
		return wrongParams(errs)
	}
	return nil
}
