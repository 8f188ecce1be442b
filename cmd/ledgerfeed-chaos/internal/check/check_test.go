package check

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// run is a small run in which nothing is wrong: three entries of one workspace, of
// which the first two are events, appended one after the other, read by a follower
// and delivered. Tests break it in one place each.
type run struct {
	log     *Log
	history *History
	follow  *Follow
	inbox   *Inbox
	outbox  map[string]map[string]bool
	faults  []Fault
}

func soundRun() *run {
	r := &run{
		log: &Log{Entries: map[string][]domain.Entry{}, Public: map[string][]Event{}}, history: NewHistory(),
		follow: &Follow{Workspace: "w", List: ListEvents}, inbox: NewInbox("w"), outbox: map[string]map[string]bool{"w": {}},
	}
	chain := sha256.Sum256([]byte("w"))
	for i := range 3 {
		e := domain.Entry{
			WorkspaceID: "w", Position: int64(i + 1), ID: fmt.Sprint("e", i+1), Type: "time_entry.approved",
			Data: `{}`, CreatedAt: noon.Add(time.Duration(i) * time.Second),
		}
		chain = link(chain, &e)
		e.Chain = chain
		r.log.Entries["w"] = append(r.log.Entries["w"], e)
		offers := r.history.Offer("p", e.CreatedAt, true, []domain.Draft{{WorkspaceID: "w", ID: e.ID, Type: e.Type, Data: e.Data}})
		r.history.Acknowledge(offers[0], e.CreatedAt.Add(time.Millisecond), e.Position)
		r.outbox["w"][e.ID] = true
		if i < 2 {
			public := Event{e.Position, e.ID, e.Type, `{"id":"` + e.ID + `"}`, false}
			r.log.Public["w"] = append(r.log.Public["w"], public)
			r.follow.Events = append(r.follow.Events, Seen{e.ID, public.JSON})
			r.inbox.Take(Message{EventID: e.ID, Body: public.JSON, Position: e.Position, At: e.CreatedAt, Signed: true, Accepted: true})
		}
	}
	return r
}

// check runs all checks and returns the rules that were broken.
func (r *run) check() (broken []string) {
	var f Findings
	r.log.index()
	r.log.CheckWhole(noon.Add(time.Minute), &f)
	r.log.CheckHistory(r.history, &f)
	r.log.CheckOutbox(r.history, r.outbox, &f)
	r.log.CheckEvents(r.follow, r.history, &f)
	var moments []time.Time
	for i := range r.faults {
		moments = append(moments, r.faults[i].Began)
	}
	r.inbox.Check(r.log, r.history, moments, &f)
	for _, found := range f.List() {
		if !slices.Contains(broken, found.Rule) {
			broken = append(broken, found.Rule)
		}
	}
	slices.Sort(broken)
	return broken
}

// TestEachBreachIsFound breaks a sound run in one place at a time.
func TestEachBreachIsFound(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		breakIt func(*run)
		want    []string
	}{
		"nothing": {func(*run) {}, nil},
		"a gap": {func(r *run) {
			r.log.Entries["w"] = slices.Delete(r.log.Entries["w"], 1, 2)
			r.log.Public["w"] = r.log.Public["w"][:1]
		}, []string{RuleAppended, RuleOutbox, RuleDelivered, RuleEvents, RuleLog}},
		"an entry was changed": {func(r *run) { r.log.Entries["w"][1].Data = `{"a":1}` }, []string{RuleAppended, RuleLog}},
		"the chain is broken":  {func(r *run) { r.log.Entries["w"][2].Chain[0] ^= 1 }, []string{RuleLog}},
		"a publish time falls": {func(r *run) { r.log.Entries["w"][1].CreatedAt = noon.Add(-time.Hour) }, []string{RuleLog}},
		"a publish time ahead": {func(r *run) { r.log.Entries["w"][2].CreatedAt = noon.Add(time.Hour) }, []string{RuleLog}},
		"acknowledged and not there": {func(r *run) {
			o := r.history.Offer("p", noon, false, []domain.Draft{{WorkspaceID: "w", ID: "e4"}})
			r.history.Acknowledge(o[0], noon, 4)
		}, []string{RuleAppended}},
		"not acknowledged and not there": {func(r *run) {
			r.history.Offer("p", noon, false, []domain.Draft{{WorkspaceID: "w", ID: "e4"}})
		}, nil},
		"acknowledged elsewhere":       {func(r *run) { r.history.offers[1].Position = 7 }, []string{RuleAppended}},
		"refused and there":            {func(r *run) { r.history.offers[1].Refused = "no" }, []string{RuleAppended}},
		"order of time":                {func(r *run) { r.history.offers[0].Began = noon.Add(time.Hour) }, []string{RuleOrder}},
		"overlapping, in either order": {func(r *run) { r.history.offers[0].Ended = noon.Add(time.Hour) }, nil},
		"a row without its entry": {func(r *run) {
			r.history.Offer("p", noon, true, []domain.Draft{{WorkspaceID: "w", ID: "e4"}})
			r.outbox["w"]["e4"] = true
		}, []string{RuleOutbox}},
		"an entry without its row": {func(r *run) { delete(r.outbox["w"], "e2") }, []string{RuleOutbox}},
		"an event missed":          {func(r *run) { r.follow.Events = r.follow.Events[1:] }, []string{RuleEvents}},
		"an event twice":           {func(r *run) { r.follow.Events = append(r.follow.Events, r.follow.Events[0]) }, []string{RuleEvents}},
		"events out of order":      {func(r *run) { slices.Reverse(r.follow.Events) }, []string{RuleEvents}},
		"another event's text":     {func(r *run) { r.follow.Events[0].JSON = "{}" }, []string{RuleEvents}},
		"an event from nowhere":    {func(r *run) { r.follow.Events = append(r.follow.Events, Seen{"x", "{}"}) }, []string{RuleEvents}},
		"an event that the key may not see": {func(r *run) {
			r.log.Public["w"][1].Pay = true
		}, []string{RuleEvents}},
		"never delivered": {func(r *run) { delete(r.inbox.accepted, "e2") }, []string{RuleDelivered}},
		"delivered unsigned": {func(r *run) {
			r.inbox.Take(Message{EventID: "e1", Body: `{"id":"e1"}`, Position: r.log.Public["w"][0].Position, Signed: false})
		}, []string{RuleDelivered}},
		"another body delivered": {func(r *run) { r.inbox.accepted["e1"][0].body = "{}" }, []string{RuleDelivered}},
		"delivered from nowhere": {func(r *run) {
			r.inbox.Take(Message{EventID: "x", Signed: true, Accepted: true, At: noon})
		}, []string{RuleDelivered}},
		"another position for a later attempt": {func(r *run) {
			r.inbox.Take(Message{EventID: "e1", Body: `{"id":"e1"}`, Position: 3, Signed: true})
		}, []string{RulePositions}},
		"repeats under way": {func(r *run) { r.repeat(10) }, nil},
		"too many repeats":  {func(r *run) { r.repeat(11) }, []string{RuleDuplicates}},
		"repeats at a fault": {func(r *run) {
			r.repeat(20)
			r.faults = append(r.faults, Fault{Began: noon})
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := soundRun()
			c.breakIt(r)
			if got := r.check(); !slices.Equal(got, c.want) {
				t.Errorf("found %q, want %q", got, c.want)
			}
		})
	}
}

func (r *run) repeat(n int) {
	for range n {
		r.inbox.Take(Message{EventID: "e1", Body: `{"id":"e1"}`, Position: r.log.Public["w"][0].Position, Signed: true, Accepted: true, At: noon})
	}
}

// A fault that destroys a tail excuses what was acknowledged, seen and delivered of
// it, and nothing else.
func TestLostTail(t *testing.T) {
	t.Parallel()
	lost := func() *run {
		r := soundRun()
		o := r.history.Offer("p", noon, false, []domain.Draft{{WorkspaceID: "w", ID: "gone"}})
		r.history.Acknowledge(o[0], noon, 4)
		r.follow.Events = append(r.follow.Events, Seen{"gone", "{}"})
		r.inbox.Take(Message{EventID: "gone", Signed: true, Accepted: true, At: noon})
		r.history.Lose(noon.Add(time.Second), noon.Add(time.Second), map[string]int64{"w": 3}, func(string, string) bool { return false })
		return r
	}
	if got := lost().check(); got != nil {
		t.Errorf("a lost tail is found as %q", got)
	}
	later := lost()
	o := later.history.Offer("p", noon.Add(time.Minute), false, []domain.Draft{{WorkspaceID: "w", ID: "e4"}})
	later.history.Acknowledge(o[0], noon.Add(time.Minute), 4)
	if got, want := later.check(), []string{RuleAppended}; !slices.Equal(got, want) {
		t.Errorf("an entry acknowledged after the loss: %q, want %q", got, want)
	}
	if h := lost().history; !h.LostSince(noon) || h.LostSince(noon.Add(time.Minute)) {
		t.Error("LostSince does not tell cursors of the old log from those of the new one")
	}
}

// What was acknowledged and never held is found before a loss can hide it.
func TestCheckHeld(t *testing.T) {
	t.Parallel()
	r := soundRun()
	var f Findings
	r.history.CheckHeld(func(_, id string) bool { return id != "e2" }, &f)
	if got := f.Counts()[RuleAppended]; got != 1 {
		t.Errorf("%d findings, want 1: %v", got, f.List())
	}
}

func TestRepeatsAcrossALossAreNoDuplicates(t *testing.T) {
	t.Parallel()
	r := soundRun()
	r.history.Lose(noon.Add(time.Minute), noon.Add(time.Minute), map[string]int64{"w": 3}, func(string, string) bool { return true })
	for range 30 {
		r.inbox.Take(Message{EventID: "e1", Body: `{"id":"e1"}`, Position: r.log.Public["w"][0].Position, Signed: true, Accepted: true, At: noon.Add(2 * time.Minute)})
	}
	if got := r.check(); got != nil {
		t.Errorf("found %q: the log went back, so the message is sent again", got)
	}
}

// An entry whose outcome was unknown is appended again after a loss, at another time: the
// receiver has both forms, and needs the one that the log has.
func TestEventsThatAreAppendedAgain(t *testing.T) {
	t.Parallel()
	again := func(forms ...string) []string {
		r := soundRun()
		delete(r.inbox.accepted, "e1")
		r.history.Lose(noon.Add(time.Minute), noon.Add(time.Minute), map[string]int64{"w": 3}, func(string, string) bool { return true })
		for i, form := range forms {
			r.inbox.Take(Message{EventID: "e1", Body: form, Position: r.log.Public["w"][0].Position, Signed: true, Accepted: true, At: noon.Add(time.Duration(2*i) * time.Minute)})
		}
		return r.check()
	}
	const current = `{"id":"e1"}`
	if got := again("of the lost log", current); got != nil {
		t.Errorf("both forms are found as %q", got)
	}
	for name, forms := range map[string][]string{"only the lost form": {"of the lost log"}, "another form later": {current, "of nowhere"}} {
		if got, want := again(forms...), []string{RuleDelivered}; !slices.Equal(got, want) {
			t.Errorf("%s is found as %q, want %q", name, got, want)
		}
	}
}

// folded is the state after a client, its charge and its renaming.
func folded(t *testing.T) *domain.State {
	t.Helper()
	s := domain.NewState()
	for i, e := range []struct{ typ, data string }{
		{"client.recorded", `{"client_id":"c","name":"One"}`},
		{"charge.created", `{"charge_id":"ch","client_id":"c","date":"2026-11-01","category":"x","kind":"y","billed_to_client":false,"amount":"1.00","currency":"EUR","period":"2026-11","pay_amount":"1.00"}`},
		{"client.recorded", `{"client_id":"c","name":"Two"}`},
	} {
		d, err := domain.NewDraft("w", e.typ, []byte(e.data))
		if err != nil {
			t.Fatal(err)
		}
		s.Apply(&domain.Entry{WorkspaceID: "w", Position: int64(i + 1), ID: fmt.Sprint(i), Type: e.typ, Data: d.Data, CreatedAt: noon})
	}
	return s
}

func TestHeldRows(t *testing.T) {
	t.Parallel()
	s := folded(t)
	all, _ := Rows(s, "clients", Sight{})
	for name, c := range map[string]struct {
		list  string
		sight Sight
		rows  map[string]string
		want  int
	}{
		"the newest":               {"clients", Sight{}, all, 0},
		"an old name":              {"clients", Sight{}, map[string]string{"c": "old"}, 1},
		"none":                     {"clients", Sight{}, map[string]string{}, 1},
		"one too many":             {"clients", Sight{}, map[string]string{"c": all["c"], "d": "{}"}, 1},
		"a charge that was hidden": {"charges", Sight{}, map[string]string{"ch": "{}"}, 0},
		"a charge not seen":        {"charges", Sight{Pay: true}, map[string]string{}, 1},
		"a charge that left":       {"charges, removed", Sight{}, map[string]string{"ch": "{}"}, 1},
		"a charge that was taken":  {"charges, removed", Sight{}, map[string]string{}, 0},
	} {
		var f Findings
		list, told := strings.CutSuffix(c.list, ", removed")
		HeldRows(&Follow{Workspace: "w", List: list, Removed: told, Sight: c.sight, Rows: c.rows}, s, NewHistory(), &f)
		if got := f.Counts()[RuleRows]; got != c.want {
			t.Errorf("%s: %d findings, want %d: %v", name, got, c.want, f.List())
		}
	}
}

func TestAnswersInTime(t *testing.T) {
	t.Parallel()
	at := func(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }
	stop := []Fault{{Kind: "stop", Touches: []string{"a"}, Began: at(0), Ended: at(50)}}
	for name, c := range map[string]struct {
		gap    Gap
		faults []Fault
		want   int
	}{
		"a fault explains it":        {Gap{"a", at(0), at(55)}, stop, 0},
		"too late after the fault":   {Gap{"a", at(0), at(81)}, stop, 1},
		"the other process":          {Gap{"b", at(0), at(31)}, stop, 1},
		"no fault":                   {Gap{"a", at(100), at(131)}, stop, 1},
		"a reader of both processes": {Gap{"any", at(100), at(200)}, stop, 0},
	} {
		var f Findings
		AnswersInTime([]Gap{c.gap}, c.faults, "any", &f)
		if got := f.Counts()[RuleAnswers]; got != c.want {
			t.Errorf("%s: %d findings, want %d", name, got, c.want)
		}
	}
	if got := Longest([]Gap{{"a", at(1), at(9)}, {"a", at(2), at(4)}, {"b", at(0), at(40)}}, stop, "a"); got["stop"] != 8*time.Second {
		t.Errorf("the longest gap of a is %v", got)
	}
}

func TestBystandersUnaffected(t *testing.T) {
	t.Parallel()
	at := func(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }
	held := Fault{Kind: "held-head", Began: at(0), Ended: at(15)}
	slow := Sample{At: at(2), Acknowledged: 12 * time.Second}
	for name, c := range map[string]struct {
		sample Sample
		faults []Fault
		want   int
	}{
		"fast":                  {Sample{At: at(2), Acknowledged: time.Second, Delivered: time.Second}, []Fault{held}, 0},
		"slow":                  {slow, []Fault{held}, 1},
		"failed":                {Sample{At: at(2), Failed: true}, []Fault{held}, 1},
		"delivered late":        {Sample{At: at(2), Acknowledged: time.Second, Delivered: 20 * time.Second}, []Fault{held}, 1},
		"another fault as well": {slow, []Fault{held, {Kind: "kill", Began: at(1), Ended: at(1)}}, 0},
		"long before":           {Sample{At: at(-60), Acknowledged: time.Second}, []Fault{held}, 0},
	} {
		var f Findings
		BystandersUnaffected([]Sample{c.sample}, c.faults, []string{"held-head"}, &f)
		if got := f.Counts()[RuleBystanders]; got != c.want {
			t.Errorf("%s: %d findings, want %d", name, got, c.want)
		}
	}
}

// through is a log that was ingested, relayed and followed without a fault: two workspaces
// of three and two entries.
func through() (home, away *Log, ids map[string][]string, messages []Relayed) {
	home, away, ids = &Log{Entries: map[string][]domain.Entry{}}, &Log{Entries: map[string][]domain.Entry{}}, map[string][]string{}
	for w, n := range map[string]int{"v": 2, "w": 3} {
		chain := sha256.Sum256([]byte(w))
		for i := range n {
			e := domain.Entry{WorkspaceID: w, Position: int64(i + 1), ID: fmt.Sprint("e", i+1), Type: "client.recorded", Data: `{}`, CreatedAt: noon}
			chain = link(chain, &e)
			e.Chain = chain
			home.Entries[w], away.Entries[w], ids[w] = append(home.Entries[w], e), append(away.Entries[w], e), append(ids[w], e.ID)
			messages = append(messages, Relayed{w, e.Position, fmt.Sprintf("%x", e.Chain), line(&e)})
		}
	}
	return home, away, ids, messages
}

// TestEachBreachOfARegionIsFound breaks a sound one in one place at a time. Messages that the
// broker holds twice are no breach.
func TestEachBreachOfARegionIsFound(t *testing.T) {
	t.Parallel()
	type things struct {
		home, away *Log
		ids        map[string][]string
		messages   []Relayed
		dead       int
	}
	of := func(th *things, w string, position int64) int {
		return slices.IndexFunc(th.messages, func(m Relayed) bool { return m.Workspace == w && m.Position == position })
	}
	for name, c := range map[string]struct {
		breaks func(*things)
		rule   string // empty: none
	}{
		"nothing":         {func(*things) {}, ""},
		"a message again": {func(th *things) { th.messages = append(th.messages, th.messages[of(th, "w", 2)]) }, ""},
		"a message gone":  {func(th *things) { i := of(th, "w", 2); th.messages = slices.Delete(th.messages, i, i+1) }, RuleRelayed},
		"the last gone":   {func(th *things) { i := of(th, "w", 3); th.messages = slices.Delete(th.messages, i, i+1) }, RuleRelayed},
		"two the wrong way": {func(th *things) {
			i, j := of(th, "w", 1), of(th, "w", 2)
			th.messages[i], th.messages[j] = th.messages[j], th.messages[i]
		}, RuleRelayed},
		"another text":       {func(th *things) { th.messages[0].Line += " " }, RuleRelayed},
		"another chain":      {func(th *things) { th.messages[0].Chain = "00" }, RuleRelayed},
		"a foreign message":  {func(th *things) { th.messages = append(th.messages, Relayed{Workspace: "x", Position: 1}) }, RuleRelayed},
		"an entry lost":      {func(th *things) { th.ids["w"] = append(th.ids["w"], "e4") }, RuleIngested},
		"an entry doubled":   {func(th *things) { th.ids["w"] = th.ids["w"][:2] }, RuleIngested},
		"another order":      {func(th *things) { slices.Reverse(th.ids["w"]) }, RuleIngested},
		"a workspace more":   {func(th *things) { delete(th.ids, "v") }, RuleIngested},
		"a dead letter more": {func(th *things) { th.dead++ }, RuleIngested},
		"a follower behind":  {func(th *things) { th.away.Entries["w"] = th.away.Entries["w"][:2] }, RuleFollower},
		"a follower's chain": {func(th *things) { th.away.Entries["w"][1].Chain[0]++ }, RuleFollower},
		"a follower's own":   {func(th *things) { th.away.Entries["x"] = th.away.Entries["v"] }, RuleFollower},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var (
				th things
				f  Findings
			)
			th.home, th.away, th.ids, th.messages = through()
			c.breaks(&th)
			th.home.CheckIngested(th.ids, 0, th.dead, &f)
			th.home.CheckRelayed(th.messages, &f)
			th.home.CheckFollower(th.away, &f)
			rules := slices.Collect(maps.Keys(f.Counts()))
			if c.rule == "" && len(rules) > 0 || c.rule != "" && !slices.Equal(rules, []string{c.rule}) {
				t.Errorf("found %v: %v", rules, f.List())
			}
		})
	}
}
