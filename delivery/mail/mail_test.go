package mail

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
)

func TestMailSettingsAreChecked(t *testing.T) {
	t.Parallel()
	for _, s := range []Settings{
		{URL: "http://x", From: "a@b.c"}, {URL: "smtp://", From: "a@b.c"}, {URL: "smtp://h:1"}, {URL: "smtp://h", From: "nobody"},
	} {
		if _, err := New(s, nil, time.Now, nil); err == nil {
			t.Errorf("%+v was taken", s)
		}
	}
}

// plainServer is a mail server without STARTTLS, which counts the mails it gets. It
// refuses the recipient nobody@example.com.
func plainServer(t *testing.T) (url string, mails *atomic.Int64) {
	t.Helper()
	mails = &atomic.Int64{}
	return serve(t, counter{mails}), mails
}

// serve is a mail server without STARTTLS.
func serve(t *testing.T, session smtp.Session) (url string) {
	t.Helper()
	s := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return session, nil }))
	s.Domain = "localhost"
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close(); <-done })
	return "smtp://" + l.Addr().String()
}

type counter struct{ mails *atomic.Int64 }

func (counter) Reset()                               {}
func (counter) Logout() error                        { return nil }
func (counter) Mail(string, *smtp.MailOptions) error { return nil }
func (counter) Rcpt(to string, _ *smtp.RcptOptions) error {
	if to == "nobody@example.com" {
		return errors.New("there is no " + to)
	}
	return nil
}

func (c counter) Data(r io.Reader) error {
	c.mails.Add(1)
	_, err := io.Copy(io.Discard, r)
	return err
}

// A server that does not offer STARTTLS gets mail in plain text, unless the address
// demands it: then it gets none.
func TestRequireTLS(t *testing.T) {
	t.Parallel()
	url, mails := plainServer(t)
	for query, required := range map[string]bool{"": false, "?tls=required": true} {
		m, err := New(Settings{URL: url + query, From: "a@example.com"}, nil, time.Now, nil)
		if err != nil {
			t.Fatal(err)
		}
		err = m.send(t.Context(), &dueMail{to: "b@example.com", createdAt: time.Now()})
		if required != (err != nil) || required && !strings.Contains(err.Error(), "STARTTLS") {
			t.Errorf("TLS required: %v: %v", required, err)
		}
	}
	if n := mails.Load(); n != 1 {
		t.Errorf("%d mails went out in plain text, want 1", n)
	}
}

// What is logged and kept about a mail that could not be sent does not hold the
// recipient's address.
func TestFailuresDoNotNameTheRecipient(t *testing.T) {
	t.Parallel()
	url, _ := plainServer(t)
	m, err := New(Settings{URL: url, From: "a@example.com"}, nil, time.Now, nil)
	if err != nil {
		t.Fatal(err)
	}
	d := &dueMail{to: "nobody@example.com", createdAt: time.Now()}
	err = d.withoutRecipient(m.send(t.Context(), d))
	if err == nil || strings.Contains(err.Error(), d.to) || !strings.Contains(err.Error(), "(the recipient)") {
		t.Error(err)
	}
}
