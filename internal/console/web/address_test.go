package web

import "testing"

func TestOnlyLocalAddressesAreRedirectedTo(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"/keys": "/keys", "/keys?x=1": "/keys?x=1", "": "/", "https://evil.example": "/", "//evil.example": "/", "/\\evil.example": "/",
		"/\t/evil.example": "/", "javascript:alert(1)": "/",
	} {
		if got := Local(address); got != want {
			t.Errorf("Local(%q) is %q, want %q", address, got, want)
		}
	}
}
