package domain

import "github.com/ledgerfeed/ledgerfeed/domain/jsonform"

// testPing is the data of test.ping.
type testPing struct {
	references
	WebhookID string
}

var testPingType = define(entryType[testPing]{
	typeHead: typeHead{
		name: TypeTestPing, object: "webhook", public: true,
		when: "Somebody chose \"Send test\" on a webhook. It is sent to that webhook alone; nothing else has changed.",
	},
	fields: []jsonform.Field[testPing]{
		{Name: "webhook_id", Form: FormID, Required: true, At: func(d *testPing) any { return &d.WebhookID }},
	},
	effect: func(*fold, *testPing) {},
})
