package events

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/console/label"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
	"github.com/ledgerfeed/ledgerfeed/readapi"
	"github.com/ledgerfeed/ledgerfeed/readapi/route"
)

// BesideTimeout is how long a page waits by default for what it shows beside its subject, such as
// an event's object. The page comes without it then.
const BesideTimeout = 500 * time.Millisecond

// maxAnswer is how much of an answer the page shows, in bytes.
const maxAnswer = 32 << 10

// object is the answer that a reader gets for an event's object now.
type object struct {
	Path    string // of the request; empty: there is nothing to read
	List    bool   // the path is a list, so it is not read
	Answer  string // as JSON, laid out
	Cut     bool   // there is more of it
	Status  int    // 0: it could not be read in time
	Removed string // what include=removed gives, as JSON; empty: the object was not removed
}

// readBeside begins to read what the page shows beside the event. The function that it
// returns waits for that; it may be called again.
func (p *Pages) readBeside(r *web.Request, body *eventBody, entry *domain.Entry) (wait func()) {
	ctx, cancel := context.WithTimeout(r.Context(), p.BesideTimeout)
	var reading sync.WaitGroup
	reading.Go(func() { body.Object = p.readObject(ctx, r, body.Event) })
	reading.Go(func() { body.Change = p.readChange(ctx, r, entry, body.Event) })
	return func() { reading.Wait(); cancel() }
}

func (p *Pages) readObject(ctx context.Context, r *web.Request, e *event) object {
	o := object{Path: strings.NewReplacer("{object_id}", e.Data.ObjectID, "{client_id}", e.Data.ClientID).Replace(route.ReadOf(e.Data.ObjectType))}
	if o.List = strings.Contains(o.Path, "?"); o.List || o.Path == "" {
		return o
	}
	read, err := p.Reader.Get(ctx, readapi.Ask{WorkspaceID: r.Session.WorkspaceID, Permissions: label.PermissionsOf(r.Session.MaySeePay()), Path: o.Path})
	if err != nil {
		r.Warn("cannot read the object of an event", err)
		return o
	}
	if read.Status != http.StatusOK && read.Status != http.StatusNotFound {
		return o
	}
	o.Status, o.Removed = read.Status, label.IndentJSON(string(read.Removed))
	if o.Status == http.StatusOK {
		o.Answer = label.IndentJSON(string(read.Body))
	}
	if o.Cut = len(o.Answer) > maxAnswer; o.Cut {
		o.Answer = strings.ToValidUTF8(o.Answer[:maxAnswer], "")
	}
	return o
}
