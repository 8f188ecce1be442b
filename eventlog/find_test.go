package eventlog

import "testing"

func TestSearchFor(t *testing.T) {
	t.Parallel()
	const value = `{"name":"Zürich West & Partners","billing_address":null,"contacts":[{"first_name":"Kwame","last_name":"García","phone":"+1 555 0178","is_primary":true}]}`
	for text, want := range map[string]bool{
		"kwame garcía": true, "Garcia Kwame": true, "GARCIA": true, "Zurich": true, "Zu\u0308rich": true, "West & Partners": true, "zürich  west": true,
		"+15550178": true, "555-01 78": true, "0178": true, "first_name": false, "true": false, "Kwame West": false, "999990178": false, "null": false,
	} {
		if got := searchFor(text)(value); got != want {
			t.Errorf("%q is found: %t, want %t", text, got, want)
		}
	}
}
