package mail

import (
	"testing"
	"time"
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
