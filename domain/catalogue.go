package domain

import "slices"

// Names of the types that other packages treat specially.
const (
	TypePayoutPaid    = "payout.paid"    // public, but only for keys with pay:read
	TypeChargeCreated = "charge.created" // this and the next one, too, where the charge is not billed to the client
	TypeChargeDeleted = "charge.deleted"
	TypeTestPing      = "test.ping" // delivered to one webhook alone
)

// catalogue lists the types of entries in the order of the contract; kinds is the
// same by name. Both are made once and never changed.
var (
	catalogue = []kind{
		clientRecordedType, contractorRecordedType,
		invoiceRecordedType, invoiceIssuedType, invoiceSentType, invoicePaidType, invoiceVoidedType, invoiceReversedType,
		creditNoteIssuedType, payoutSentToPayrollType, periodClosedType,
		paymentConfirmedType, payoutPaidType,
		timeEntryRecordedType, timeEntryApprovedType, timeEntryDeclinedType, timeEntryDeletedType,
		chargeCreatedType, chargeRecordedType, chargeDeletedType,
		creditToppedUpType, creditAppliedType, creditTakenBackType, creditExpiredType,
		testPingType,
	}
	kinds = kindsByName()
)

func kindsByName() map[string]kind {
	kinds := make(map[string]kind, len(catalogue))
	for _, k := range catalogue {
		kinds[k.head().name] = k
	}
	return kinds
}

// kindNamed returns a type of entry; nil when this version does not know it.
func kindNamed(name string) kind { return kinds[name] }

// PublicTypes returns the names of the service's event types, in the order of the
// contract.
func PublicTypes() []string {
	var list []string
	for _, k := range catalogue {
		if k.head().public {
			list = append(list, k.head().name)
		}
	}
	return list
}

// TypesWithoutPay returns the names of the types that are not about what contractors
// are paid alone, in the order of the contract.
func TypesWithoutPay() []string {
	var list []string
	for _, k := range catalogue {
		if !k.head().pay {
			list = append(list, k.head().name)
		}
	}
	return list
}

// publicObjects returns the object types of public events, each once.
func publicObjects() []string {
	var list []string
	for _, k := range catalogue {
		if h := k.head(); h.public && !slices.Contains(list, h.object) {
			list = append(list, h.object)
		}
	}
	return list
}
