package pages

import (
	"archive/zip"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/xuri/excelize/v2"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/domain/jsonform"
	"github.com/ledgerfeed/ledgerfeed/internal/console/web"
)

// FilePattern is the route pattern of files, which are not pages.
const FilePattern = "/files/{file}"

// stall is how long a browser may take nothing of a workbook, which is sent when it is complete.
const stall = time.Minute

// file answers with a list, as filtered, as a file that a spreadsheet opens: a workbook, or CSV. It has
// what a key with the session's permissions would get.
func (p *Data) file(r *web.Request) error {
	extension := path.Ext(r.Path("file"))
	l, err := p.list(strings.TrimSuffix(r.Path("file"), extension))
	if err != nil {
		return err
	}
	chosen := l.selection(r)
	if err := l.understands(r, chosen); err != nil {
		return err
	}
	name := r.Session.WorkspaceID + "-" + l.Slug + "-" + r.Now.Format("20060102-150405") + extension
	columns := columnsOf(l, r.Session.MaySeePay())
	var f sheet
	switch extension {
	case ".csv":
		f = newCSV(r, name, columns)
	case ".xlsx":
		if f, err = newWorkbook(r, name, l, columns); err != nil {
			return err
		}
	default:
		return web.ErrNotFound
	}
	defer f.close()
	status, err := p.Reader.Rows(r.Context(), p.ask(r, l.Path, chosen, 0), r.W, func(row []byte) error {
		read, err := readRow(row)
		if err != nil {
			return err
		}
		return f.add(read)
	}, f.end)
	switch {
	case errors.Is(err, errTooLong):
		return &web.PageError{Status: http.StatusBadRequest, Title: "Too many rows", Text: "A workbook has room for 1,048,576 rows. Choose a shorter time, or download CSV."}
	case err != nil:
		if f.begun() {
			panic(http.ErrAbortHandler) // the browser must not take half a file for a whole one
		}
		return err
	case status != http.StatusOK:
		return busy(status)
	}
	return nil
}

// sheet is a file that is made row by row. Nothing is sent before its first row or its end.
type sheet interface {
	add(record) error
	begun() bool // something was sent
	end() error
	close()
}

// column is a column of a file.
type column struct {
	label  string
	field  *jsonform.FieldDescription
	id     bool // of a party, whose name is in the column before
	signed bool // of credit, whose rows say by their kind whether it grew
}

// columnsOf returns the columns of a list for people: each field that the session sees, and for a party
// its name and its id.
func columnsOf(l *list, seesPay bool) (all []column) {
	for i := range l.Resource.Fields {
		f := &l.Resource.Fields[i]
		if f.Part != domain.Base && !seesPay {
			continue
		}
		c := column{label: web.Field(f.Name), field: f, signed: l.Slug == "credit-history" && f.Name == "amount"}
		switch {
		case f.Form == domain.FormDateTime:
			c.label += " (UTC)"
		case f.Name == "period": // another column has its name
			c.label = "Period code"
		}
		all = append(all, c)
		if isParty(f) {
			all = append(all, column{label: c.label + " ID", field: f, id: true})
		}
	}
	return all
}

// text returns the value as people read it; numbers as digits with a point.
func (c *column) text(r record) string {
	value := r[c.field.Name]
	switch {
	case value == "" || value == "null" || value == "[]":
		return ""
	case isParty(c.field):
		id, name := r.party(c.field.Name)
		if c.id {
			return id
		}
		return name
	case c.number():
		number := strings.Trim(value, `"`)
		if c.signed && signOf(r.text("kind")) == "−" {
			return "-" + number
		}
		return number
	case c.field.Form == domain.FormDateTime:
		if at, ok := domain.ParseTime(r.text(c.field.Name)); ok {
			return at.Format(time.DateTime)
		}
	}
	return strings.Join(web.Value(c.field.Name, value), "; ")
}

func (c *column) number() bool { return isNumber(c.field.Form) }

// csvFile is CSV as spreadsheets open it: with a byte order mark, so that they know that it is UTF-8.
type csvFile struct {
	r       *web.Request
	name    string
	columns []column
	comma   bool // numbers have a decimal comma, and semicolons are between cells
	out     *csv.Writer
	cells   []string
}

func newCSV(r *web.Request, name string, columns []column) *csvFile {
	return &csvFile{r: r, name: name, columns: columns, comma: decimalComma(r.Header.Get("Accept-Language"))}
}

// decimalComma reports whether spreadsheets in the language that a browser prefers write 1,5 for one and
// a half. They take a semicolon for the end of a cell.
func decimalComma(accepted string) bool {
	language, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(accepted)), ",")
	language, _, _ = strings.Cut(language, ";")
	switch language {
	case "de-ch", "de-li", "it-ch", "es-mx", "es-us", "es-gt", "es-hn", "es-ni", "es-pa", "es-pe", "es-pr", "es-sv", "es-do":
		return false
	}
	language, _, _ = strings.Cut(language, "-")
	return slices.Contains([]string{
		"bg", "bs", "ca", "cs", "da", "de", "el", "es", "et", "eu", "fi", "fr", "gl", "hr", "hu", "id", "is", "it", "kk", "lt", "lv", "mk", "nb", "nl", "nn", "no",
		"pl", "pt", "ro", "ru", "sk", "sl", "sq", "sr", "sv", "tr", "uk", "vi",
	}, language)
}

// begin sends the head of the file.
func (f *csvFile) begin() error {
	begin(f.r, f.name, "text/csv; charset=utf-8; header=present")
	if _, err := io.WriteString(f.r.W, "\ufeff"); err != nil {
		return fmt.Errorf("send a file: %w", err)
	}
	f.out = csv.NewWriter(f.r.W)
	f.out.UseCRLF = true
	if f.comma {
		f.out.Comma = ';'
	}
	for i := range f.columns {
		f.cells = append(f.cells, f.columns[i].label)
	}
	return f.write()
}

func (f *csvFile) write() error {
	if err := f.out.Write(f.cells); err != nil {
		return fmt.Errorf("send a file: %w", err)
	}
	f.cells = f.cells[:0]
	return nil
}

func (f *csvFile) add(r record) error {
	if f.out == nil {
		if err := f.begin(); err != nil {
			return err
		}
	}
	for i := range f.columns {
		c := &f.columns[i]
		text := c.text(r)
		switch {
		case !c.number():
			text = NoFormula(text, f.comma)
		case f.comma:
			text = strings.Replace(text, ".", ",", 1)
		}
		f.cells = append(f.cells, text)
	}
	return f.write()
}

func (f *csvFile) end() error {
	if f.out == nil {
		if err := f.begin(); err != nil {
			return err
		}
	}
	f.out.Flush()
	if err := f.out.Error(); err != nil {
		return fmt.Errorf("send a file: %w", err)
	}
	return nil
}

func (f *csvFile) begun() bool { return f.out != nil }
func (*csvFile) close()        {}

// begin sends the headers of a file.
func begin(r *web.Request, name, contentType string) {
	h := r.W.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Disposition", `attachment; filename="`+name+`"`)
	h.Set("Cache-Control", "no-store")
	r.W.WriteHeader(http.StatusOK)
}

// NoFormula puts an apostrophe before text that a spreadsheet would take for a formula, which could
// send data away when the file is opened. It does so inside a cell, too, after characters that a
// spreadsheet may read as the end of a cell, such as semicolons and tabs: quoting the cell does not
// prevent this, because such a spreadsheet sees an opening quote only at the start of a line. commas
// says that commas are among these characters: in a file that separates cells with commas, a cell with
// a comma is in quotation marks.
func NoFormula(text string, commas bool) string {
	const formulaStarts = "=+-@＝＋－＠"
	cellEnds := ";\t\r\n\u0085\u2028\u2029"
	if commas {
		cellEnds += ","
	}
	if !strings.ContainsAny(text, formulaStarts) {
		return text
	}
	var b []byte
	if strings.ContainsAny(text[:1], "\t\r\n") { // spreadsheets may drop these
		b = append(b, '\'')
	}
	starts := true // the start of a cell
	for _, r := range text {
		if starts && strings.ContainsRune(formulaStarts, r) {
			b = append(b, '\'')
		}
		b = utf8.AppendRune(b, r)
		starts = strings.ContainsRune(cellEnds, r) || starts && (r == ' ' || r == '"')
	}
	return string(b)
}

// errTooLong says that a workbook has no room for the list.
var errTooLong = errors.New("a workbook has no more rows")

// workbook is a file of Excel's kind (ECMA-376). Rows go to a temporary file once they are many.
type workbook struct {
	dir     *scratch
	r       *web.Request
	name    string
	list    *list
	columns []column
	file    *excelize.File
	out     *excelize.StreamWriter
	styles  map[jsonform.Form]int
	bold    int
	rows    int
	sums    map[string][]*big.Int // of list.Sums in ten-thousandths, by the values of the separated fields

	separated []string // fields whose values are not added up together
}

// newWorkbook makes a workbook with its head, which stays in sight.
func newWorkbook(r *web.Request, name string, l *list, columns []column) (*workbook, error) {
	dir, err := newScratch()
	if err != nil {
		return nil, err
	}
	w := &workbook{dir: dir, r: r, name: name, list: l, columns: columns, file: excelize.NewFile(excelize.Options{TmpDir: dir.name}), styles: map[jsonform.Form]int{}, sums: map[string][]*big.Int{}}
	if l.totals != nil {
		w.separated = append([]string{"currency"}, l.totals.Total.Separated...)
	}
	if err := w.begin(); err != nil {
		w.close()
		return nil, fmt.Errorf("make a workbook: %w", err)
	}
	return w, nil
}

func (w *workbook) begin() error {
	faults := []error{w.file.SetSheetName("Sheet1", w.list.Name)}
	style := func(of *excelize.Style) int {
		id, err := w.file.NewStyle(of)
		faults = append(faults, err)
		return id
	}
	w.bold = style(&excelize.Style{Font: &excelize.Font{Bold: true}})
	for form, format := range map[jsonform.Form]string{
		domain.FormMoney: "#,##0.00", domain.FormSignedMoney: "#,##0.00", domain.FormHours: "0.00##", domain.FormNumber: "0.00##", domain.FormInteger: "0",
		domain.FormDate: "yyyy-mm-dd", domain.FormDateTime: "yyyy-mm-dd hh:mm:ss",
	} {
		w.styles[form] = style(&excelize.Style{CustomNumFmt: &format})
	}
	out, err := w.file.NewStreamWriter(w.list.Name)
	if faults = append(faults, err); errors.Join(faults...) != nil {
		return errors.Join(faults...)
	}
	w.out = out
	if err := errors.Join(
		out.SetPanes(&excelize.Panes{Freeze: true, YSplit: 1, TopLeftCell: "A2", ActivePane: "bottomLeft"}),
		out.SetColWidth(1, len(w.columns), 18),
	); err != nil {
		return err
	}
	head := make([]any, len(w.columns))
	for i := range w.columns {
		head[i] = excelize.Cell{StyleID: w.bold, Value: w.columns[i].label}
	}
	return w.write(head)
}

func (w *workbook) write(cells []any) error {
	if w.rows == excelize.TotalRows {
		return errTooLong
	}
	w.rows++
	if err := w.out.SetRow("A"+strconv.Itoa(w.rows), cells); err != nil {
		return fmt.Errorf("make a workbook: %w", err)
	}
	return nil
}

func (w *workbook) add(r record) error {
	cells := make([]any, len(w.columns))
	for i := range w.columns {
		cells[i] = w.cell(&w.columns[i], r)
	}
	if len(w.list.Sums) > 0 {
		w.addUp(r)
	}
	return w.write(cells)
}

func (w *workbook) cell(c *column, r record) any {
	text := c.text(r)
	style := w.styles[c.field.Form]
	switch {
	case text == "":
		return nil
	case c.number():
		return number(text, style)
	case c.field.Form == domain.FormDate:
		if day, err := time.Parse(time.DateOnly, text); err == nil {
			return excelize.Cell{StyleID: style, Value: day}
		}
	case c.field.Form == domain.FormDateTime:
		if at, err := time.Parse(time.DateTime, text); err == nil {
			return excelize.Cell{StyleID: style, Value: at}
		}
	}
	return text
}

// number is a cell with a decimal number. A workbook's numbers have 15 digits, which those of rows do
// not exceed: the shortest text of the float is the number that it was made of.
func number(text string, style int) any {
	digits := strings.TrimPrefix(text, "-")
	if strings.Contains(digits, ".") {
		digits = strings.TrimRight(strings.TrimRight(digits, "0"), ".")
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || len(digits) > 16 {
		return text
	}
	return excelize.Cell{StyleID: style, Value: v}
}

// addUp adds a row to the totals.
func (w *workbook) addUp(r record) {
	var key []string
	for _, name := range w.separated {
		key = append(key, r[name])
	}
	of := strings.Join(key, ",")
	if w.sums[of] == nil {
		w.sums[of] = make([]*big.Int, len(w.list.Sums))
	}
	for i, name := range w.list.Sums {
		amount, ok := new(big.Rat).SetString(strings.Trim(r[name], `"`))
		if !ok {
			continue // null
		}
		if w.sums[of][i] == nil {
			w.sums[of][i] = new(big.Int)
		}
		amount.Mul(amount, big.NewRat(10_000, 1))
		w.sums[of][i].Add(w.sums[of][i], amount.Num())
	}
}

// total writes the rows of totals: one for each currency, and for what else is not to be mixed.
func (w *workbook) total() error {
	keys := make([]string, 0, len(w.sums))
	for key := range w.sums {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	// An empty row keeps totals out of what a spreadsheet sorts, filters and pivots.
	if len(keys) > 0 {
		if err := w.write(nil); err != nil {
			return err
		}
	}
	for _, key := range keys {
		values := strings.Split(key, ",")
		cells := make([]any, len(w.columns))
		label := "Total"
		for i, name := range w.separated { // not in their columns, where a sum by currency would count them as a row
			label += " " + separating(name, values[i])
		}
		cells[0] = excelize.Cell{StyleID: w.bold, Value: label}
		for i := range w.columns {
			if at := slices.Index(w.list.Sums, w.columns[i].field.Name); at >= 0 && w.sums[key][at] != nil {
				cells[i] = number(new(big.Rat).SetFrac(w.sums[key][at], big.NewInt(10_000)).FloatString(4), w.styles[w.columns[i].field.Form])
			}
		}
		if err := w.write(cells); err != nil {
			return err
		}
	}
	return nil
}

// separating is the value of a field that separates totals, as it reads in their label.
func separating(name, value string) string {
	switch {
	case name != "reversed":
		return strings.Join(web.Value(name, value), "")
	case value == "true":
		return "reversed"
	}
	return "not reversed"
}

func (w *workbook) end() error {
	if err := w.total(); err != nil {
		return err
	}
	if err := w.out.Flush(); err != nil {
		return fmt.Errorf("make a workbook: %w", err)
	}
	begin(w.r, w.name, "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet")
	// By itself the library keeps the whole file in memory before it writes.
	w.file.SetZipWriter(func(io.Writer) excelize.ZipWriter { return zip.NewWriter(patient{w.r.W}) })
	if err := w.file.Write(io.Discard); err != nil {
		panic(http.ErrAbortHandler) // as above
	}
	return nil
}

// patient writes to a browser as long as it goes on taking something.
type patient struct{ to http.ResponseWriter }

func (p patient) Write(b []byte) (int, error) {
	_ = http.NewResponseController(p.to).SetWriteDeadline(time.Now().Add(stall)) // a connection of a test has none
	return p.to.Write(b)
}

func (*workbook) begun() bool { return false } // before its end

func (w *workbook) close() {
	_ = w.file.Close()
	w.dir.remove()
}

// busy returns the page for a download that cannot start.
func busy(status int) error {
	text := "The list cannot be read at the moment. Try again in a minute."
	switch status {
	case http.StatusTooManyRequests:
		text = "Somebody is downloading a list of this workspace already. Try again when that has ended."
	case http.StatusBadRequest:
		text = "A filter is not valid. Go back to the list, which says what is wrong."
	}
	return &web.PageError{Status: cmp.Or(status, http.StatusServiceUnavailable), Title: "No download now", Text: text}
}
