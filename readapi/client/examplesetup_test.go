package client_test

import (
	"os"
	"sync"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/client"
	"github.com/ledgerfeed/ledgerfeed/readapi/readapitest"
)

// connect returns a Client of a small workspace. The service is made at the first call and ends
// with the tests.
func connect() *client.Client {
	address, key := exampleService()
	api, err := client.New(client.Config{URL: address, Key: key})
	if err != nil {
		panic(err)
	}
	return api
}

var exampleService = sync.OnceValues(func() (address, key string) {
	t, _ := testkit.ExampleTB()
	s := readapitest.New(t)
	s.Grow(
		readapitest.Line(t, `"type":"client.recorded","data":{"client_id":"cl_1","name":"Blue Door Ltd"}`),
		readapitest.Line(t, `"type":"invoice.recorded","data":{"invoice_id":"in_1","number":"2026-001","client_id":"cl_1","period":"2026-10","gross_amount":"420.00","currency":"EUR"}`),
		readapitest.Line(t, `"type":"invoice.issued","data":{"invoice_id":"in_1","invoice_number":"2026-001","amount":"420.00"}`),
		readapitest.Line(t, `"type":"invoice.sent","data":{"invoice_id":"in_1","invoice_number":"2026-001"}`),
		readapitest.Line(t, `"type":"invoice.recorded","data":{"invoice_id":"in_2","number":"2026-002","client_id":"cl_1","period":"2026-10","gross_amount":"79.90","currency":"EUR"}`),
		readapitest.Line(t, `"type":"invoice.issued","data":{"invoice_id":"in_2","invoice_number":"2026-002","amount":"79.90"}`),
		readapitest.Line(t, `"type":"invoice.sent","data":{"invoice_id":"in_2","invoice_number":"2026-002"}`),
		readapitest.Line(t, `"type":"time_entry.recorded","data":{"time_entry_id":"te_1","work_date":"2026-10-01","client_id":"cl_1","contractor_id":"co_1","service":"Consulting","hours":7.5,"period":"2026-10","currency":"EUR"}`),
		readapitest.Line(t, `"type":"time_entry.recorded","data":{"time_entry_id":"te_2","work_date":"2026-10-02","client_id":"cl_1","contractor_id":"co_1","service":"Consulting","hours":1.25,"period":"2026-10","currency":"EUR"}`),
		readapitest.Line(t, `"type":"time_entry.deleted","data":{"time_entry_id":"te_2"}`),
	)
	_, key = s.Key(access.AllPermissions()...)
	return s.Address, key
})

// exampleDir makes a directory.
func exampleDir() (dir string, remove func()) {
	dir, err := os.MkdirTemp("", "ledgerfeed-example")
	if err != nil {
		panic(err)
	}
	return dir, func() { _ = os.RemoveAll(dir) }
}

// exampleNow is when the examples' messages were sent.
func exampleNow() time.Time { return time.Unix(1_790_000_000, 0) }
