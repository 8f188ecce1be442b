package attempt

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/internal/brand"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// TestHeaderNamesKeepTheBrandsCase looks at the bytes of a request.
func TestHeaderNamesKeepTheBrandsCase(t *testing.T) {
	t.Parallel()
	head := make(chan string, 1)
	h := hostile{serve: func(c net.Conn) {
		buf := make([]byte, 4096)
		n, _ := c.Read(buf)
		head <- string(buf[:n])
		write(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	}}
	sender := testkit.Must(NewSender(SenderConfig{Settings: policy.Settings{Brand: testkit.Must(brand.Parse("ACME-Pay"))(t), Allow: testkit.Loopback(), CAFile: testkit.CAFile(t)}, Clock: time.Now}))(t)
	defer sender.Close()
	if a := sender.to(t, h.here(t)); !a.Success() {
		t.Fatalf("%+v", a)
	}
	got := <-head
	for _, want := range []string{
		"\r\nACME-Pay-Signature: t=", "\r\nACME-Pay-Event-Id: evt_1\r\n", "\r\nACME-Pay-Delivery-Id: evt_1_wh\r\n", "\r\nACME-Pay-Log-Position: 7\r\n",
		"\r\nUser-Agent: ACME-Pay-Webhooks/1\r\n", "\r\nContent-Type: application/json\r\n", "\r\nContent-Length: 2\r\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the request has no %q:\n%s", want, got)
		}
	}
	for _, not := range []string{"Idempotency-Key", "Accept-Encoding", "Transfer-Encoding"} {
		if strings.Contains(got, not) {
			t.Errorf("the request has %s:\n%s", not, got)
		}
	}
}
