package domain

// Form is the form of a field's value (docs/contract/log.md, "Forms used below").
// It is the jsonform.Form of every field of this package.
type Form int

// The forms of the log contract and of the service's answers.
const (
	FormID Form = iota + 1
	FormText
	FormEnum // one of the texts in Field.Values
	FormMoney
	FormSignedMoney
	FormCurrency
	FormDate
	FormDateTime
	FormPeriod
	FormHours
	FormNumber
	FormInteger
	FormCount // of answers alone: a sum of whole numbers, which may be beyond 64 bits
	FormBool
	FormObject
	FormArray
	FormSalt
)

// Description says which values the form takes, for error messages and
// documentation.
func (f Form) Description() string {
	switch f {
	case FormID:
		return "an id: 1 to 64 of A-Z a-z 0-9 _ -"
	case FormText, FormEnum: // errors list the values of an enum instead
		return "a text: 1 to 4096 characters without control characters other than newline and tab"
	case FormMoney:
		return `money: a string of 1 to 12 digits, a point and 2 digits, such as "420.00"`
	case FormSignedMoney:
		return `money with a sign: a string of 1 to 12 digits, a point and 2 digits, such as "420.00" or "-3.50"`
	case FormCurrency:
		return `a currency: a string of three capital letters, such as "EUR"`
	case FormDate:
		return "a date: YYYY-MM-DD, a real day"
	case FormDateTime:
		return "a date-time: RFC 3339 with an offset, such as 2026-10-02T09:15:00.120Z"
	case FormPeriod:
		return "a period: YYYY-MM, YYYY-Www (an ISO week of that year) or YYYY-BWnn (01 to 26, 27 in a year of 53 weeks)"
	case FormHours:
		return "hours: a number from 0, at most 14 digits before the point and 4 decimals"
	case FormNumber:
		return "a number: at most 14 digits before the point and 4 decimals"
	case FormInteger:
		return "a whole number: from 0 to 9007199254740991"
	case FormCount:
		return "a whole number from 0"
	case FormBool:
		return "true or false"
	case FormObject:
		return "an object"
	case FormArray:
		return "an array"
	case FormSalt:
		return "a salt: 43 characters of base64url, which are 32 bytes without padding"
	}
	return "a value"
}

// CanonicalText checks a text and returns its canonical form. Date-times become UTC with three
// decimals; other texts stay as they are.
func (f Form) CanonicalText(text string) (canonical string, ok bool) {
	switch f {
	case FormID:
		return text, IsID(text)
	case FormText:
		return text, isText(text)
	case FormCurrency:
		return text, isCurrency(text)
	case FormDate:
		return text, isDate(text)
	case FormPeriod:
		_, ok = Period(text)
		return text, ok
	case FormSalt:
		_, ok = ParseSalt(text)
		return text, ok
	case FormDateTime:
		t, ok := ParseTime(text)
		if !ok {
			return "", false
		}
		return FormatTime(t), true
	default: // the other forms have their own Go types, or a list of values
		return "", false
	}
}

// Pattern is a regular expression for the texts of the form, which JSON Schema, JavaScript and Go
// read alike; empty: the form is not of texts. It does not know the calendar: days, weeks and
// years that do not exist match too. Nor does it count the characters of a text.
func (f Form) Pattern() string {
	const (
		date = `[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])`
		hour = `([01][0-9]|2[0-3]):[0-5][0-9]`
	)
	switch f {
	case FormID:
		return `^[A-Za-z0-9_-]{1,64}$`
	case FormText:
		return `^[^\x00-\x08\x0b-\x1f\x7f-\x9f]+$`
	case FormMoney:
		return `^[0-9]{1,12}\.[0-9]{2}$`
	case FormSignedMoney:
		return `^-?[0-9]{1,12}\.[0-9]{2}$`
	case FormCurrency:
		return `^[A-Z]{3}$`
	case FormDate:
		return `^` + date + `$`
	case FormDateTime:
		return `^` + date + `[Tt]` + hour + `:[0-5][0-9](\.[0-9]+)?([Zz]|[+-]` + hour + `)$`
	case FormPeriod:
		return `^[0-9]{4}-((0[1-9]|1[0-2])|W(0[1-9]|[1-4][0-9]|5[0-3])|BW(0[1-9]|1[0-9]|2[0-7]))$`
	case FormSalt:
		return `^[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]$`
	default:
		return ""
	}
}

// example is a value of the form as JSON, where that says enough.
func (f Form) example() string {
	switch f {
	case FormMoney:
		return `"420.00"`
	case FormCurrency:
		return `"EUR"`
	case FormDate:
		return `"2026-10-01"`
	case FormDateTime:
		return `"2026-10-02T09:15:00.120Z"`
	case FormPeriod:
		return `"2026-10"`
	case FormHours:
		return `7.5`
	case FormInteger:
		return `3`
	case FormBool:
		return `true`
	default:
		return ""
	}
}
