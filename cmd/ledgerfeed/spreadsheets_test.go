//go:build outside

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// ofASheet has one invoice whose client has a name that a sheet would take for a formula.
const ofASheet = `{"workspace_id":"acme","created_at":"2026-10-01T08:00:00.000Z","type":"client.recorded","data":{"client_id":"cl_1","name":"=1+1"}}
{"workspace_id":"acme","created_at":"2026-10-01T08:00:00.000Z","type":"contractor.recorded","data":{"contractor_id":"co_1","name":"Rosa Tran"}}
{"workspace_id":"acme","created_at":"2026-10-02T08:00:00.000Z","type":"invoice.recorded","data":{"invoice_id":"in_1","number":"+1","client_id":"cl_1","contractor_id":"co_1","period":"2026-10","gross_amount":"999999999999.99","currency":"EUR"}}
{"workspace_id":"acme","created_at":"2026-10-02T09:15:00.120Z","type":"invoice.issued","data":{"invoice_id":"in_1","invoice_number":"+1-1","amount":"999999999999.99"}}
`

// sheets stand for Google's objects. A request is answered before fetch returns, as there. A range
// outside the grid is an error.
const sheets = `
const {execFileSync} = require('child_process');
const tabs = {};
function tab(name) {
  let rows = 1;
  return tabs[name] = {
    values: null,
    getMaxRows: () => rows,
    insertRowsAfter: (_, n) => { rows += n; },
    clearContents() { this.values = null; },
    getRange(row, column, height, width) {
      if (row + height - 1 > rows) throw new Error('outside the grid');
      return {setValues: (values) => {
        if (values.length !== height || values.some((v) => v.length !== width)) throw new Error('another size');
        this.values = values;
      }};
    },
  };
}
const SpreadsheetApp = {getActiveSpreadsheet: () => ({getSheetByName: (name) => tabs[name] || null, insertSheet: tab})};
const PropertiesService = {getScriptProperties: () => ({getProperty: (name) => process.env[name]})};
let broken = false;
const UrlFetchApp = {fetch: (url, {headers}) => ({getContentText: () => {
  const text = execFileSync('curl', ['-sS', '--fail', url, ...Object.entries(headers).flatMap(([k, v]) => ['-H', k + ': ' + v])], {encoding: 'utf8'});
  return broken ? text.trim().split('\n').slice(0, -1).join('\n') : text;
}})};
`

// TestSpreadsheets runs the script that the guide has for Google Sheets, against a service.
func TestSpreadsheets(t *testing.T) {
	t.Parallel()
	script := regexp.MustCompile("(?s) {3}```js\n(.*?) {3}```\n").FindStringSubmatch(read(t, "../../docs/guides/spreadsheets-and-bi.md"))
	if script == nil {
		t.Fatal("the guide has no script")
	}
	url := appended(t, ofASheet)
	serving := startProcess(t, command(t, url, "serve", "--roles", "api,project"))
	base := strings.TrimSpace(serving.await("for=api url="))
	reader := newReader(t, url, base, "acme", endpointScopes)
	succeed(t, url, "status", "--wait")
	file := filepath.Join(t.TempDir(), "main.js")
	write(t, file, sheets+script[1]+`
refresh();
refresh();
broken = true;
try { refresh(); tabs.went = 'on'; } catch (e) { tabs.error = e.message; }
console.log(JSON.stringify(tabs));`)
	c := exec.CommandContext(t.Context(), "node", file)
	c.Env = append(os.Environ(), "URL="+base, "KEY="+reader.key)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var tabs struct {
		Invoices    struct{ Values [][]any }
		Error, Went string
	}
	if err := json.Unmarshal(out, &tabs); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	want := []any{"'+1", "'=1+1", "'not_ready", "'2026-10", "2026-10-01", "2026-10-02T09:15:00.120Z", 999999999999.99, "'EUR"}
	if values := tabs.Invoices.Values; len(values) != 2 || !slices.Equal(values[1], want) {
		t.Errorf("the sheet has %v, want %v", values, want)
	}
	if tabs.Went != "" || !strings.HasPrefix(tabs.Error, "invoices: ") {
		t.Errorf("a list that breaks off: %q %q", tabs.Went, tabs.Error)
	}
}
