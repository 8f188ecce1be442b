package readapi

import "github.com/ledgerfeed/ledgerfeed/readapi/access"

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
