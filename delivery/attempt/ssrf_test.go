package attempt

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery/policy"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// nameServer is a DNS server of the test's own.
type nameServer struct {
	mu      sync.Mutex
	answers func(name string) []netip.Addr
	asked   int
	addr    string
}

func newNameServer(t *testing.T, answers func(name string) []netip.Addr) *nameServer {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &nameServer{answers: answers, addr: conn.LocalAddr().String()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(s.reply(buf[:n]), from)
		}
	}()
	t.Cleanup(func() { _ = conn.Close(); <-done })
	return s
}

// reply answers a question of one name, for A and AAAA.
func (s *nameServer) reply(q []byte) []byte {
	end := 12
	var labels []string
	for q[end] != 0 {
		labels = append(labels, string(q[end+1:end+1+int(q[end])]))
		end += 1 + int(q[end])
	}
	kind := binary.BigEndian.Uint16(q[end+1:])
	end += 5
	s.mu.Lock()
	list := s.answers(strings.ToLower(strings.Join(labels, ".")))
	s.asked++
	s.mu.Unlock()
	r := append([]byte(nil), q[:end]...)
	binary.BigEndian.PutUint16(r[2:], 0x8180)
	clear(r[6:12])
	if list == nil {
		binary.BigEndian.PutUint16(r[2:], 0x8183) // there is no such name
	}
	n := uint16(0)
	for _, a := range list {
		if (kind == 1) != a.Is4() || kind != 1 && kind != 28 {
			continue
		}
		r = append(r, 0xc0, 12, 0, byte(kind), 0, 1, 0, 0, 0, 0)
		r = binary.BigEndian.AppendUint16(r, uint16(a.BitLen()/8))
		r = append(r, a.AsSlice()...)
		n++
	}
	binary.BigEndian.PutUint16(r[6:], n)
	return r
}

func (s *nameServer) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", s.addr)
	}}
}

// watched returns a sender and a function that lists the addresses which its filter
// allowed so far. A connection may still be dialed when the result of its message is
// known, so the list is a function.
func watched(t *testing.T, s policy.Settings, r *net.Resolver) (*Sender, func() []string) {
	t.Helper()
	if s.Timeout == 0 {
		s.Timeout = 2 * time.Second
	}
	sender := testkit.Must(NewSender(SenderConfig{Settings: s, Clock: time.Now, Resolver: r}))(t)
	t.Cleanup(sender.Close)
	var (
		mu     sync.Mutex
		passed []string
		guard  = sender.dialer.tcp.Control
	)
	sender.dialer.tcp.Control = func(network, address string, c syscall.RawConn) error {
		err := guard(network, address, c)
		if err == nil {
			mu.Lock()
			passed = append(passed, address)
			mu.Unlock()
		}
		return err
	}
	return sender, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(passed)
	}
}

func (s *Sender) to(t *testing.T, address string) Result {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return s.Send(t.Context(), &Message{URL: u, EventID: "evt_1", DeliveryID: "evt_1_wh", Position: 7, Body: []byte("{}"), Secrets: []string{"whsec_x"}})
}

// forbidden are addresses that are not public, one or more of each range.
func forbidden() []string {
	return []string{
		"0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.254", "100.64.0.1", "100.127.255.254", "100.100.100.200",
		"127.0.0.1", "127.1.2.3", "127.255.255.254", "169.254.0.1", "169.254.169.254", "169.254.170.2",
		"172.16.0.1", "172.31.255.254", "192.0.0.1", "192.0.0.170", "192.0.2.1", "192.88.99.1", "192.168.0.1",
		"192.168.255.254", "198.18.0.1", "198.19.255.254", "198.51.100.7", "203.0.113.9", "224.0.0.1",
		"239.255.255.255", "240.0.0.1", "255.255.255.255", "168.63.129.16",
	}
}

// spellings returns ways to write an IPv4 address as the host of a URL.
func spellings(v4 string) []string {
	a := netip.MustParseAddr(v4).As4()
	n := binary.BigEndian.Uint32(a[:])
	hi, lo := binary.BigEndian.Uint16(a[:2]), binary.BigEndian.Uint16(a[2:])
	hex := fmt.Sprintf("%x:%x", hi, lo)
	inverted := fmt.Sprintf("%x:%x", ^hi, ^lo)
	return []string{
		v4, v4 + ".",
		fmt.Sprint(n), fmt.Sprintf("0x%x", n), fmt.Sprintf("0%o", n),
		fmt.Sprintf("0x%x.0x%x.0x%x.0x%x", a[0], a[1], a[2], a[3]),
		fmt.Sprintf("0%o.0%o.0%o.0%o", a[0], a[1], a[2], a[3]),
		fmt.Sprintf("%d.%d", a[0], n&0xffffff), fmt.Sprintf("%d.%d.%d", a[0], a[1], n&0xffff),
		fmt.Sprintf("%03d.%03d.%03d.%03d", a[0], a[1], a[2], a[3]),
		"[::ffff:" + v4 + "]", "[::ffff:" + hex + "]", "[0:0:0:0:0:ffff:" + hex + "]",
		"[::" + v4 + "]", "[::ffff:0:" + v4 + "]",
		"[64:ff9b::" + v4 + "]", "[64:ff9b:1::" + hex + "]",
		"[2002:" + hex + "::1]", "[2001:0:4136:e378:8000:63bf:" + inverted + "]",
		"[2a00:1450::5efe:" + hex + "]", "[2a00:1450::200:5efe:" + hex + "]", "[fe80::5efe:" + hex + "]",
	}
}

func forbidden6() []string {
	return []string{
		"::", "::1", "0:0:0:0:0:0:0:1", "fe80::1", "febf::1", "fc00::1", "fd00:ec2::254", "fdff::1", "ff02::1", "ff05::1:3",
		"2001:db8::1", "2001:2::1", "2001:10::1", "2001:20::1", "3fff::1", "5f00::1", "100::1", "fec0::1", "4000::1",
	}
}

// TestNothingButPublicAddresses tries every range in every spelling, by
// address and by name.
func TestNothingButPublicAddresses(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())

	names := map[string]netip.Addr{}
	for i, ip := range append(forbidden(), forbidden6()...) {
		names[fmt.Sprintf("n%d.example.com", i)] = netip.MustParseAddr(ip)
		names[fmt.Sprintf("m%d.example.com", i)] = netip.AddrFrom16(netip.MustParseAddr(ip).As16())
	}
	dns := newNameServer(t, func(name string) []netip.Addr {
		if a, ok := names[name]; ok {
			return []netip.Addr{a}
		}
		return nil
	})
	sender, passed := watched(t, policy.Settings{}, dns.resolver())
	g := newFilter(nil)
	tried := 0
	try := func(host string, mayBeMade bool) {
		t.Helper()
		tried++
		address := "https://" + host + ":" + port + "/hook"
		if fault := faultOf(address, g); fault == "" && !mayBeMade {
			t.Errorf("a webhook to %s could be made", address)
		}
		if a := sender.to(t, address); a.Outcome != OutcomeBlocked && a.Outcome != OutcomeUnreachable || a.Status != 0 {
			t.Errorf("%s: %s (%s)", address, a.Outcome, a.Error)
		}
	}
	for _, v4 := range forbidden() {
		for _, host := range spellings(v4) {
			try(host, false)
		}
	}
	for _, v6 := range forbidden6() {
		try("["+v6+"]", false)
	}
	for name := range names {
		try(name, true)
	}
	try("localhost", true)
	if p := passed(); len(p) != 0 {
		t.Errorf("connections to %q", p)
	}
	if tried < 250 {
		t.Errorf("only %d addresses were tried", tried)
	}
	t.Logf("%d spellings", tried)
}

func TestPublicAddressesPass(t *testing.T) {
	t.Parallel()
	g := newFilter(nil)
	for _, host := range []string{
		"example.com", "hooks.example.com.", "a-b.example", "xn--bcher-kva.example", "_x.example.com", "1.1.1.1", "8.8.8.8", "93.184.216.34",
		"[2606:4700::1111]", "[2a00:1450:4001::200e]", "168.63.129.17", "100.63.255.255", "100.128.0.1", "172.15.0.1", "172.32.0.1",
	} {
		for _, rest := range []string{"", "/", ":8443/a?b=c", "/" + strings.Repeat("x", 1900)} {
			if fault := faultOf("https://"+host+rest, g); fault != "" {
				t.Errorf("%s%.9s %s", host, rest, fault)
			}
		}
	}
	for _, bad := range []string{
		"", "https://", "http://example.com", "HTTP://example.com", "example.com", "ftp://example.com", "https:///x", "https:example.com",
		"https://user@example.com", "https://user:pw@example.com/", "https://example.com/#x", "https://example.com#",
		"https://example.com:0", "https://example.com:99999", "https://example.com:", "https://exa mple.com", "https://exämple.com",
		"https://-a.example", "https://a..b", "https://" + strings.Repeat("a", 64) + ".com", "https://example.com/" + strings.Repeat("x", 2048),
		"https://example.com/\n", "https://[::1", "https://[fe80::1%25eth0]/", "https://exa%20mple.com", "https://127.1", "https://example.com/%zz",
	} {
		if faultOf(bad, g) == "" {
			t.Errorf("%q was taken", bad)
		}
	}
}

// TestChangingAnswersGainNothing: a name resolves to a public address and later to
// another one, or to both at once. What the operator allows counts as public.
func TestChangingAnswersGainNothing(t *testing.T) {
	t.Parallel()
	var hits [2]int
	port := ""
	for i, ip := range []string{"127.0.0.1", "127.0.0.2"} {
		if port == "" {
			port = "0"
		}
		l, err := net.Listen("tcp", net.JoinHostPort(ip, port))
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ = net.SplitHostPort(l.Addr().String())
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits[i]++ }))
		_ = s.Listener.Close()
		s.Listener = l
		s.Config.SetKeepAlivesEnabled(false)
		s.StartTLS()
		t.Cleanup(s.Close)
	}
	private, public := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.2")
	turns := 0
	dns := newNameServer(t, func(name string) []netip.Addr {
		if name == "both.example.com" {
			return []netip.Addr{private, public}
		}
		turns++
		if turns <= 2 { // the A and AAAA of the first look-up
			return []netip.Addr{public}
		}
		return []netip.Addr{private}
	})
	sender, passed := watched(t, policy.Settings{
		Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}, CAFile: testkit.CAFile(t),
	}, dns.resolver())
	first := sender.to(t, "https://turn.example.com:"+port)
	second := sender.to(t, "https://turn.example.com:"+port)
	if !first.Success() || second.Outcome != OutcomeBlocked {
		t.Errorf("first %+v, then %+v", first, second)
	}
	if a := sender.to(t, "https://both.example.com:"+port); !a.Success() {
		t.Errorf("both: %+v", a)
	}
	if hits[0] != 0 || hits[1] != 2 {
		t.Errorf("hits %v", hits)
	}
	for _, p := range passed() {
		if !strings.HasPrefix(p, "127.0.0.2:") {
			t.Errorf("a connection to %s", p)
		}
	}
}

func TestProxiesOfTheEnvironmentAreIgnored(t *testing.T) {
	hit := make(chan struct{}, 10)
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hit <- struct{}{} }))
	defer proxy.Close()
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "ALL_PROXY", "HTTP_PROXY"} {
		t.Setenv(name, proxy.URL)
	}
	rc := testkit.NewReceiver(t, nil)
	sender, _ := watched(t, policy.Settings{Allow: testkit.Loopback(), CAFile: testkit.CAFile(t)}, nil)
	if a := sender.to(t, rc.URL); !a.Success() {
		t.Errorf("%+v", a)
	}
	if len(hit) != 0 {
		t.Error("the proxy was asked")
	}
}
