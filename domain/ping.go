package domain

import "github.com/ledgerfeed/ledgerfeed/domain/jsonform"

// testPing is the data of test.ping.
type testPing struct {
	references
	WebhookID string
}

var testPingType = define(entryType[testPing]{
	typeHead: typeHead{name: TypeTestPing, object: "webhook", public: true},
	fields: []jsonform.Field[testPing]{
		{Name: "webhook_id", Form: FormID, Required: true, At: func(d *testPing) any { return &d.WebhookID }},
	},
	effect: func(*fold, *testPing) {},
})
