package domain_test

import (
	"strings"
	"testing"
	"time"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// A producer's zero date is refused, and so is every other time before 1970; it is
// never taken for an absent time (docs/contract/log.md, "An entry").
func TestTimesBefore1970AreRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"0001-01-01T00:00:00Z":      "",
		"0001-01-01T00:00:00.000Z":  "",
		"1900-01-01T00:00:00Z":      "",
		"1969-12-31T23:59:59.9999Z": "",
		"1970-01-01T00:59:59+01:00": "",
		"1970-01-01T00:00:00Z":      "1970-01-01T00:00:00.000Z",
		"1969-12-31T23:00:00-01:00": "1970-01-01T00:00:00.000Z",
		"1970-01-01T01:00:00+01:00": "1970-01-01T00:00:00.000Z",
		"9999-12-31T23:59:59.999Z":  "9999-12-31T23:59:59.999Z",
	} {
		d, err := domain.DecodeDraft([]byte(`{"workspace_id":"w","created_at":"` + text + `","type":"test.ping","data":{"webhook_id":"x"}}`))
		switch {
		case want == "" && (err == nil || !strings.Contains(err.Error(), "created_at has the wrong form: want a date-time from 1970 on")):
			t.Errorf("%s: %v, want a refusal that names created_at", text, err)
		case want != "" && (err != nil || domain.FormatTime(d.CreatedAt) != want):
			t.Errorf("%s: %v, %v", text, d.CreatedAt, err)
		}
	}
	if d, err := domain.DecodeDraft([]byte(`{"workspace_id":"w","type":"test.ping","data":{"webhook_id":"x"}}`)); err != nil || !d.CreatedAt.IsZero() {
		t.Errorf("without a time: %v, %v", d.CreatedAt, err)
	}
	if domain.IsPublishTime(time.Time{}) || domain.IsPublishTime(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)) || !domain.IsPublishTime(time.Unix(0, 0)) {
		t.Error("IsPublishTime")
	}
}
