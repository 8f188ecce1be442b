package domain

import "slices"

// Names of the types that other packages treat specially.
const (
	TypePayoutPaid    = "payout.paid"    // public, but needs pay:read
	TypeChargeCreated = "charge.created" // like the next one, needs pay:read if the charge is not billed to the client
	TypeChargeDeleted = "charge.deleted"
	TypeTestPing      = "test.ping" // sent only to the webhook under test
)

// catalogue lists the entry types in the order of the contract; kinds maps names to entry types.
// Both are built once and never change.
var (
	catalogue = []kind{
		clientRecordedType, contractorRecordedType, clientForgottenType, contractorForgottenType,
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

// kindNamed returns the entry type with this name, or nil if this version does not know it.
func kindNamed(name string) kind { return kinds[name] }

// typeNames returns the names of all entry types, in the order of the contract.
func typeNames() []string {
	list := make([]string, len(catalogue))
	for i, k := range catalogue {
		list[i] = k.head().name
	}
	return list
}

// PublicTypes returns the names of the public event types, in the order of the contract.
func PublicTypes() []string {
	var list []string
	for _, k := range catalogue {
		if k.head().public {
			list = append(list, k.head().name)
		}
	}
	return list
}

// TypesWithoutPay returns the names of the entry types that are not only about contractors' pay, in
// the order of the contract.
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
