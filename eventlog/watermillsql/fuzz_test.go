package watermillsql_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/eventlog/watermillsql"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
)

// FuzzMessage: any message is an entry or is refused with a DraftError. An entry
// stays the same when it is read back and published again, and reaches the database
// unchanged.
func FuzzMessage(f *testing.F) {
	f.Add("w", "a", "client.recorded", "", []byte(`{"client_id":"c","name":"n"}`))
	f.Add("w", "", "invoice.sent", "2026-10-02T11:15:00.1209999+02:00", []byte(`{ "client_id":"k", "invoice_id":"\u0069","sent_at":"2026-10-02t11:15:00Z"}`))
	f.Add("w", "a", "credit.applied", "2026-10-02T11:15:00Z", []byte(`{"credit_id":"c","client_id":"c","invoice_id":"i","amount":"1.00","hours":7.50e0,"note":"\"\\\n\ud83d\ude00<"}`))
	f.Add("a.b", "not an id", "", "yesterday", []byte("{"))
	f.Fuzz(func(t *testing.T, workspaceID, id, typ, createdAt string, data []byte) {
		m := message.NewMessage(id, data)
		m.Metadata.Set(watermillsql.MetadataType, typ)
		if createdAt != "" {
			m.Metadata.Set(watermillsql.MetadataCreatedAt, createdAt)
		}
		d, err := watermillsql.DraftOf(workspaceID, m)
		if err != nil {
			var draftErr *domain.DraftError
			if !errors.As(err, &draftErr) {
				t.Fatalf("refused with %v", err)
			}
			return
		}
		again, err := watermillsql.DraftOf(workspaceID, msg(d))
		if err != nil || again != d {
			t.Fatalf("published again: %+v, %v; at first %+v", again, err, d)
		}
		q, err := (watermillsql.Schema{Clock: testkit.NewClock(noon).Now}).InsertQuery(wsql.InsertQueryParams{Topic: workspaceID, Msgs: message.Messages{m}})
		if err != nil {
			t.Fatal(err)
		}
		var sent []struct{ ID, Type, Open, Public, Value, Salt string }
		if err := json.Unmarshal([]byte(q.Args[2].(string)), &sent); err != nil || len(sent) != 1 {
			t.Fatalf("arguments %v: %v", q.Args, err)
		}
		if s := sent[0]; (id != "" && s.ID != id) || !domain.IsID(s.ID) || s.Type != d.Type || s.Open != d.Open() || s.Value != d.Value() || (s.Value == "") != (s.Salt == "") || s.Public != d.PublicData() {
			t.Fatalf("sends %+v for %+v", s, d)
		}
		if strings.Contains(d.Data, "\x00") || len(q.Args[0].(string)) > 64 {
			t.Fatalf("the database would refuse %q", d.Data)
		}
	})
}
