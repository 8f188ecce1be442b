package readapi

import (
	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/route"
)

// visibility is which permission fields of a row a key sees.
type visibility struct{ pay, margin bool }

// visibilityOf follows docs/contract/service.md, "Field visibility by permission":
// margin needs pay:read as well.
func visibilityOf(p access.Permissions) visibility {
	pay := p.Has(access.PayRead)
	return visibility{pay: pay, margin: pay && p.Has(access.MarginRead)}
}

// visibilities are all that can occur.
func visibilities() []visibility {
	return []visibility{{}, {pay: true}, {pay: true, margin: true}}
}

// shows is the part of a visibility that shows rows or fields at an endpoint. A key that may see
// payouts sees no more of clients than one that may not.
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

// exceeds reports whether a visibility shows anything that another one does not.
func (v visibility) exceeds(other visibility) bool {
	return v.pay && !other.pay || v.margin && !other.margin
}

// Bits of a visibility's code.
const (
	codePay = 1 << iota
	codeMargin
)

// code is the visibility in a cursor.
func (v visibility) code() (code byte) {
	if v.pay {
		code |= codePay
	}
	if v.margin {
		code |= codeMargin
	}
	return code
}

// parseVisibility reads what code wrote, which the cursor's proof guarantees.
func parseVisibility(code byte) visibility {
	return visibility{pay: code&codePay != 0, margin: code&codeMargin != 0}
}
