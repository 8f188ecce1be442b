package statement

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ledgerfeed/ledgerfeed/delivery"
)

// form is the second line of every statement.
const form = "webhook statement v1"

// Text is the statement as it is signed (docs/statements.md).
func (s *Statement) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\n", s.Name, form)
	fmt.Fprintf(&b, "workspace %s\nwebhook %s\nday %s\nmade %s\nposition %d\n", s.WorkspaceID, s.WebhookID, s.Day, s.Made, s.Position)
	fmt.Fprintf(&b, "events %s\ncounted-from %s\n", strings.Join(s.Events, ","), s.CountedFrom)
	if s.Numbered == 0 {
		b.WriteString("sequence none\n")
	} else {
		fmt.Fprintf(&b, "sequence %d-%d\n", s.First, s.Last)
	}
	for _, c := range s.counts() {
		fmt.Fprintf(&b, "%s %d\n", c.key, *c.n)
	}
	fmt.Fprintf(&b, "delivered-sha256 %s\nundelivered-sha256 %s\n", s.DeliveredSum, s.UndeliveredSum)
	fmt.Fprintf(&b, "undelivered %d\nlisted %d\n", s.UndeliveredCount(), len(s.Undelivered))
	for i := range s.Undelivered {
		b.WriteString(s.Undelivered[i].line())
	}
	return b.String()
}

type count struct {
	key string
	n   *int64
}

// counts are the lines with a count, in their order.
func (s *Statement) counts() []count {
	return []count{
		{"numbered", &s.Numbered}, {"sent", &s.Sent}, {"delivered", &s.Delivered}, {"failed", &s.Failed}, {"cancelled", &s.Cancelled}, {"pending", &s.Pending},
		{"waiting", &s.Waiting}, {"not-sent-off", &s.NotSentOff}, {"not-sent-other", &s.NotSentOther}, {"not-sent-history-ever", &s.History},
	}
}

// Parse reads the text of a statement. The error names the line that is wrong. What is
// accepted is, byte for byte, what Text writes.
func Parse(text string) (*Statement, error) {
	p := &parser{lines: strings.Split(text, "\n")}
	s := p.statement()
	if p.err == nil && s.Text() != text {
		p.fail("the text is not in the form of a statement")
	}
	if p.err != nil {
		return nil, p.err
	}
	return s, nil
}

// IsStatement tells whether the text of a note is a statement by its second line.
func IsStatement(text string) bool {
	_, rest, _ := strings.Cut(text, "\n")
	return strings.HasPrefix(rest, form+"\n")
}

// parser reads lines until the first that is wrong.
type parser struct {
	lines []string
	n     int // lines that were read
	err   error
}

func (p *parser) fail(why string) {
	if p.err == nil {
		p.err = fmt.Errorf("line %d of the statement: %s", p.n, why)
	}
}

func (p *parser) line() string {
	if p.n == len(p.lines) {
		p.fail("it ends too early")
		return ""
	}
	p.n++
	return p.lines[p.n-1]
}

// value is that of the next line, which begins with a key.
func (p *parser) value(key string) string {
	value, ok := strings.CutPrefix(p.line(), key+" ")
	if !ok || value == "" {
		p.fail("want " + key)
	}
	return value
}

func (p *parser) number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		p.fail("want a number")
	}
	return n
}

func (p *parser) moment(text string) Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		p.fail("want a time")
	}
	return Time{t}
}

func (p *parser) statement() *Statement {
	s := &Statement{Name: p.line()}
	if p.line() != form {
		p.fail("want " + form)
	}
	s.WorkspaceID, s.WebhookID = p.value("workspace"), p.value("webhook")
	day, err := ParseDay(p.value("day"))
	if err != nil {
		p.fail(err.Error())
	}
	s.Day, s.Made, s.Position = day, p.moment(p.value("made")), p.number(p.value("position"))
	s.Events = strings.Split(p.value("events"), ",")
	s.CountedFrom = p.moment(p.value("counted-from"))
	if sequence := p.value("sequence"); sequence != "none" {
		first, last, _ := strings.Cut(sequence, "-")
		s.First, s.Last = p.number(first), p.number(last)
	}
	for _, c := range s.counts() {
		*c.n = p.number(p.value(c.key))
	}
	p.sum("delivered-sha256", &s.DeliveredSum)
	p.sum("undelivered-sha256", &s.UndeliveredSum)
	p.number(p.value("undelivered"))
	listed := p.number(p.value("listed"))
	if listed > MaxListed {
		p.fail(fmt.Sprintf("want at most %d", MaxListed))
	}
	for ; listed > 0 && p.err == nil; listed-- {
		s.Undelivered = append(s.Undelivered, p.undelivered())
	}
	return s
}

func (p *parser) sum(key string, to *Sum) {
	text := p.value(key)
	if len(text) != hex.EncodedLen(len(to)) {
		p.fail("want 64 hexadecimal digits")
		return
	}
	if _, err := hex.Decode(to[:], []byte(text)); err != nil {
		p.fail("want 64 hexadecimal digits")
	}
}

func (p *parser) undelivered() (u Undelivered) {
	fields := strings.Split(p.line(), " ")
	if len(fields) != 3 {
		p.fail("want a state, a number and the id of an event")
		return u
	}
	u = Undelivered{State: State(fields[0]), EventID: fields[2]}
	switch u.State {
	case Failed, Cancelled, Pending, Waiting, NotSentOff, NotSentOther:
	default:
		p.fail("want the state of an event that is not delivered")
	}
	if fields[1] != "-" {
		u.Sequence = p.number(fields[1])
	}
	return u
}

// All tells whether the webhook has chosen every type.
func (s *Statement) All() bool { return len(s.Events) == 1 && s.Events[0] == delivery.AllEvents }
