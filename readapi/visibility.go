package readapi

import (
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/route"
)

// visibility says which fields of a row a key sees because of its permissions.
type visibility struct{ pay, margin bool }

// visibilityOf follows docs/contract/service.md, "Field visibility by permission":
// margin needs pay:read as well.
func visibilityOf(p access.Permissions) visibility {
	pay := p.Has(access.PayRead)
	return visibility{pay: pay, margin: pay && p.Has(access.MarginRead)}
}

// shows returns the part of a visibility that makes a difference at this endpoint. For example,
// pay:read shows nothing more of clients.
func (e *endpoint) shows(v visibility) visibility {
	r := e.Resource
	switch {
	case e.Kind == route.Events:
		return visibility{pay: v.pay}
	case r == nil:
		return visibility{}
	}
	return visibility{pay: v.pay && (r.Has(domain.Pay) || r.ShownWithoutPay != ""), margin: v.margin && r.Has(domain.Margin)}
}

// exceeds reports whether v shows anything that other does not.
func (v visibility) exceeds(other visibility) bool {
	return v.pay && !other.pay || v.margin && !other.margin
}

// code encodes the visibility for a cursor.
func (v visibility) code() (code byte) {
	if v.pay {
		code |= codePay
	}
	if v.margin {
		code |= codeMargin
	}
	return code
}

// parseVisibility reads what code wrote. The cursor's proof guarantees that it is valid.
func parseVisibility(code byte) visibility {
	return visibility{pay: code&codePay != 0, margin: code&codeMargin != 0}
}

// shows reports whether a key with this visibility sees a part of rows.
func (v visibility) shows(part jsonform.Part) bool {
	switch part {
	case domain.Pay:
		return v.pay
	case domain.Margin:
		return v.margin
	case domain.Base:
	}
	return true
}

// Bits of a visibility's code.
const (
	codePay = 1 << iota
	codeMargin
)
