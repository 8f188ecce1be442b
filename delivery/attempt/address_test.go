package attempt

import (
	"net/netip"
	"strings"
	"testing"
)

// Names that can only be local are refused, unless the operator has opened ranges
// that are not public: then receivers with such names are what they are opened for.
func TestLocalNamesAreRefused(t *testing.T) {
	t.Parallel()
	private := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	for _, host := range []string{
		"localhost", "LOCALHOST", "localhost.", "intranet", "intranet:8443", "hooks.localhost", "printer.local", "Printer.LOCAL.",
		"metadata.google.internal", "router.home.arpa", "hooks.test", "nothing.invalid", "invalid",
	} {
		err := CheckAddress("https://"+host+"/hook", nil)
		if err == nil || !strings.Contains(err.Error(), "local networks only") {
			t.Errorf("%s: %v", host, err)
		}
		if err := CheckAddress("https://"+host+"/hook", private); err != nil {
			t.Errorf("%s, with ranges opened: %v", host, err)
		}
	}
	for _, host := range []string{"example.com", "local.example", "internal.example.com", "mytest.io", "localhost.example.org", "home.arpa.example", "xn--bcher-kva.example"} {
		if err := CheckAddress("https://"+host+"/hook", nil); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
}
