package ingestapi

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
	"github.com/ledgerfeed/ledgerfeed/eventlog"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

// What became, or would become, of an entry.
const (
	appended     = "appended"
	skipped      = "skipped"
	wouldAppend  = "would_append"
	wouldSkip    = "would_skip"
	maxKeyLength = 255 // of Idempotency-Key
)

// answer is the answer to entries that were appended, or to a dry run.
type answer struct {
	Data      []row            `json:"data"`
	Appended  int              `json:"appended"`
	Skipped   int              `json:"skipped"`
	DryRun    bool             `json:"dry_run,omitempty"`
	Positions map[string]int64 `json:"positions,omitempty"` // by workspace, of the last entry of the request
	Warnings  []string         `json:"warnings,omitempty"`
}

// row is the answer to one line.
type row struct {
	Line     int    `json:"line"`
	ID       string `json:"id"`
	Position *int64 `json:"position"` // null in a dry run
	Result   string `json:"result"`
}

// entries are the checked entries of a request.
type entries struct {
	key      *Key
	lines    []line
	drafts   []domain.Draft
	personal []int // lines with ids that look like people
}

// decode checks all that does not depend on the log. idempotencyKey makes the ids of lines without
// one; empty: they are faults. The error is a *problem.
func decode(key *Key, body []byte, idempotencyKey string) (*entries, error) {
	lines, err := split(body)
	if err != nil {
		return nil, err
	}
	e := &entries{key: key, lines: lines, drafts: make([]domain.Draft, len(lines))}
	var (
		faults    []fault
		wrong     int
		forbidden bool
	)
	for i := range lines {
		found, mayNot := e.decodeLine(i, idempotencyKey)
		if len(found) == 0 {
			continue
		}
		wrong++
		forbidden = forbidden || mayNot
		if len(faults) <= maxFaults {
			faults = append(faults, found...)
		}
	}
	if wrong == 0 {
		return e, nil
	}
	p := invalidEntries(faults, wrong)
	if forbidden {
		p.Status, p.Code = http.StatusForbidden, codePermissionMissing
	}
	return nil, p
}

// decodeLine decodes line i. mayNot says that a fault is that the key may not append it.
func (e *entries) decodeLine(i int, idempotencyKey string) (faults []fault, mayNot bool) {
	add := func(field, message string) {
		faults = append(faults, fault{Line: e.lines[i].number, Field: field, Message: message})
	}
	d, err := domain.DecodeDraft(e.lines[i].text)
	if fields, is := errors.AsType[jsonform.FieldErrors](err); is {
		for _, f := range fields[:min(len(fields), maxFaults)] {
			// Its text names the field as append does, and cuts what is too long.
			add(cutField(f.Field), f.Error())
		}
		return faults, false
	}
	if err != nil {
		add("", err.Error())
		return faults, false
	}
	if d.IsStored() {
		add("stored", eventlog.ErrStoredForm.Error())
		return faults, false
	}
	if !e.key.MayAppendTo(d.WorkspaceID) {
		mayNot = true
		add("workspace_id", fmt.Sprintf("this key may not append to the workspace %q, or there is no such workspace", d.WorkspaceID))
	}
	if !e.key.MayAppend(d.Type) {
		mayNot = true
		add("type", "this key may only append "+e.key.TypesText())
	}
	if d.ID == "" {
		if idempotencyKey == "" {
			add("id", "id is missing: want an id, or the header Idempotency-Key, so that the request can be sent again")
		}
		d.ID = madeID(e.key.ID, idempotencyKey, i)
	}
	if d.PersonalID() != "" {
		e.personal = append(e.personal, e.lines[i].number)
	}
	e.drafts[i] = d
	return faults, mayNot
}

// maxField is how many bytes of a field's name are repeated.
const maxField = 200

func cutField(name string) string {
	if len(name) <= maxField {
		return name
	}
	return string([]rune(name[:maxField])) + "…"
}

// madeID is the id of the entry with an index in a request: the same whenever the request is sent
// again, and different for every producer.
func madeID(producerID, idempotencyKey string, index int) string {
	sum := sha256.Sum256([]byte("ledgerfeed/ingest/1\n" + producerID + "\n" + idempotencyKey + "\n" + strconv.Itoa(index)))
	id := uuid.UUID(sum[:16])
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // version 8, of a form of one's own
	return "evt_" + id.String()
}

// lane names the workspace of the entries, for the bound on its appends; of several, the key.
func (e *entries) lane() string {
	for i := range e.drafts {
		if e.drafts[i].WorkspaceID != e.drafts[0].WorkspaceID {
			return "key " + e.key.ID
		}
	}
	return "workspace " + e.drafts[0].WorkspaceID
}

// Times of an append.
const (
	// placeTimeout is how long a request waits for the appends before it.
	placeTimeout = 5 * time.Second
	// appendTimeout bounds an append, which goes on when its caller has gone.
	appendTimeout = 30 * time.Second
)

// append appends the entries. The error is a *problem.
func (a *API) append(ctx context.Context, e *entries) (*answer, error) {
	release, err := a.takePlaces(ctx, e)
	if err != nil {
		return nil, err
	}
	defer release()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), appendTimeout)
	defer cancel()
	receipts, err := a.cfg.Log.Append(ctx, e.drafts...)
	if err != nil {
		return nil, a.refusal(ctx, e, err)
	}
	out := &answer{Data: make([]row, len(receipts)), Positions: map[string]int64{}}
	for i := range receipts {
		r := &receipts[i]
		out.Data[i] = row{Line: e.lines[i].number, ID: r.ID, Position: &r.Position, Result: appended}
		if r.Skipped {
			out.Data[i].Result = skipped
			out.Skipped++
		}
		w := e.drafts[i].WorkspaceID
		out.Positions[w] = max(out.Positions[w], r.Position)
	}
	out.Appended = len(receipts) - out.Skipped
	return out, nil
}

// takePlaces waits until the workspace and the key may have one more append under way. A single
// entry shares a transaction with others, which eventlog bounds itself.
func (a *API) takePlaces(ctx context.Context, e *entries) (release func(), err error) {
	if len(e.drafts) == 1 {
		return func() {}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, placeTimeout)
	defer cancel()
	leaveLane, err := a.lanes.take(ctx, e.lane())
	if err == nil {
		var leaveKey func()
		if leaveKey, err = a.keys.take(ctx, e.key.ID); err == nil {
			return func() {
				leaveKey()
				leaveLane()
			}, nil
		}
		leaveLane()
	}
	return nil, busy("Other requests with this key, or to this workspace, are being appended.")
}

// tryOut finds out what append would do. The error is a *problem.
func (a *API) tryOut(ctx context.Context, e *entries) (*answer, error) {
	verdicts, err := a.cfg.Log.NewTrial(false).Append(ctx, e.drafts...)
	if err != nil {
		return nil, unavailable(err)
	}
	if p := e.refused(verdicts); p != nil {
		return nil, p
	}
	out := &answer{DryRun: true, Data: make([]row, len(verdicts))}
	for i, v := range verdicts {
		out.Data[i] = row{Line: e.lines[i].number, ID: e.drafts[i].ID, Result: wouldAppend}
		if v.Skipped {
			out.Data[i].Result = wouldSkip
			out.Skipped++
		}
	}
	out.Appended = len(verdicts) - out.Skipped
	return out, nil
}

// refused is the answer to entries that the log refuses, each with its reason; nil: it refuses none.
func (e *entries) refused(verdicts []eventlog.Verdict) *problem {
	var faults []fault
	for i, v := range verdicts {
		if v.Refused == nil {
			continue
		}
		if moved, is := errors.AsType[*eventlog.MovedError](v.Refused); is {
			return movedAway(moved)
		}
		faults = append(faults, fault{e.lines[i].number, refusedField(v.Refused), v.Refused.Error()})
	}
	if faults == nil {
		return nil
	}
	return &problem{Status: http.StatusConflict, Code: codeRefusedEntries, Errors: firstOf(faults), Detail: detail(len(faults), "is refused by the log", "are refused by the log", len(faults))}
}

func refusedField(err error) string {
	switch {
	case errors.Is(err, eventlog.ErrOtherContent):
		return "id"
	case errors.Is(err, eventlog.ErrBeforeNewest), errors.Is(err, eventlog.ErrAhead):
		return "created_at"
	}
	return "workspace_id"
}

// refusal is the answer to entries that were not appended.
func (a *API) refusal(ctx context.Context, e *entries, err error) error {
	if refused, is := errors.AsType[*eventlog.RefusedError](err); is {
		// The log names the first one alone. A trial finds the others, as long as nothing changes meanwhile.
		verdicts, terr := a.cfg.Log.NewTrial(false).Append(ctx, e.drafts...)
		if terr != nil || verdicts[refused.Index].Refused == nil {
			verdicts = make([]eventlog.Verdict, len(e.drafts))
			verdicts[refused.Index].Refused = refused
		}
		return e.refused(verdicts)
	}
	if moved, is := errors.AsType[*eventlog.MovedError](err); is {
		return movedAway(moved)
	}
	if locked, is := errors.AsType[*eventlog.LockedError](err); is {
		p := busy(fmt.Sprintf("Another transaction holds the log of the workspace %s.", locked.WorkspaceID))
		p.Status, p.Code, p.Cause = http.StatusServiceUnavailable, codeUnavailable, err
		return p
	}
	if eventlog.Certain(err) {
		return unavailable(err)
	}
	return &problem{
		Status: http.StatusServiceUnavailable, Code: codeUnknownOutcome, RetryAfter: 2, Cause: err,
		Detail: "The entries may or may not have been appended. Send the same request again: what was appended is skipped.",
	}
}

// movedAway is the answer for a workspace that another database has, or that is on its way there.
func movedAway(moved *eventlog.MovedError) *problem {
	p := unavailable(moved)
	p.RetryAfter, p.MovedTo = 5, moved.To
	p.Detail = fmt.Sprintf("The workspace %s is being moved between databases, which takes some seconds. Nothing was appended: send the same request again.", moved.WorkspaceID)
	if moved.Away {
		p.Detail = fmt.Sprintf("The workspace %s is in another database now. Nothing was appended: send the same request again, with growing waits; if that goes on, ask the operator of the service for its address.", moved.WorkspaceID)
	}
	return p
}

// warnings are what append says on standard error.
func (e *entries) warnings() []string {
	if len(e.personal) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s an id or a number that looks like a name, an email address or a telephone number; the first is line %d. "+
		"Ids and numbers are shown for ever, also when the person is forgotten.", texts.Count(len(e.personal), "line has", "lines have"), e.personal[0])}
}
