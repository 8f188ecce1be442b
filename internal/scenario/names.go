package scenario

import "strconv"

// location is where a client is; state is empty where addresses have none.
type location struct{ city, state, zip, country string }

// The word lists. Some words have what naive programs handle wrongly: other scripts,
// quotes, ampersands, markup, line feeds.
//
//nolint:gochecknoglobals // constant lists of words
var (
	companyHeads = []string{
		"Northwind", "Summit", "Juniper", "Meridian", "Harbor", "Bluebird", "Cedar & Sons", "Åkerlund", "Lumière",
		"Kestrel", "O’Hare & Blythe", "Orchard", "Vega", "Silverline", "Fjord", "Zürich West", "Paragon", "Tamarack",
		"Ivy \"The\" Lane", "Marigold", "Ostrava", "Redwood", "Halcyon", "Pemberton",
	}

	companyTails = []string{
		"Clinic", "LLC", "GmbH", "Studio", "Academy", "Logistics", "Health", "& Partners", "Søns", "Foods", "Media", "Labs",
		"Consulting", "Therapy Group", "Foundation", "Bros. <Retail>",
	}

	companiesWorldwide = []string{
		"株式会社みどり", "Студия «Север»", "شركة النور", "北京云帆科技", "Ελληνική Αγορά", "한빛 스튜디오", "बंगलौर डिज़ाइन",
		"מרכז אורן", "Công ty Hoa Sen", "ร้านดอกไม้",
	}

	firstNames = []string{
		"Lena", "Bo", "Pia", "Chen", "Rosa", "Emil", "Yael", "Dara", "Tove", "Vik", "Xena", "Marek", "Amara", "Jon", "Inês",
		"Oskar", "Priya", "Søren", "Zoë", "Kwame", "Noor", "Łucja", "Hugo", "Maeve",
	}

	lastNames = []string{
		"Kim", "Quist", "Petrov", "Eriksen", "Ueda", "Berg", "Tran", "Haas", "Rossi", "Fonseca", "Moreau", "Zeman", "Xu",
		"O'Neill", "Nakamura", "Ó Briain", "Müller-Lüdenscheidt", "Okafor", "Dvořák", "García", "Smith", "Ivanova",
	}

	peopleWorldwide = []string{
		"محمد علي", "佐藤 花子", "Олена Шевченко", "이서연", "王小明", "Νίκος Παππάς", "अनिता शर्मा", "דנה לוי",
	}

	plans = []string{"Standard", "Plus", "Retainer", "Pay as you go", "Care & Support", "Enterprise"}

	titles = []string{"Engineer", "SLP", "Designer", "Bookkeeper", "Occupational therapist", "Consultant", "R&D lead"}

	contactTitles = []string{"Accounts payable", "CFO", "Office manager", "Head of Care", "Owner"}

	services = []string{
		"Occupational therapy", "Bookkeeping", "Design review", "Backend work", "Speech therapy", "Evaluation — “initial”",
		"Consulting", "Data entry & cleanup",
	}

	descriptions = []string{
		"weekly session", "follow-up call", "notes, “quoted” <b>&amp;</b>", "report, first draft", "on site", "handover",
		"prep + documentation", "agreed with client:\n- scope\n- next steps", "ticket \"OPS-114\"", "übergabe & review",
		"path C:\\share\\notes", "第2回セッション",
	}

	chargeCategories = []string{"materials", "travel", "software", "late cancellation", "printing & post", "platform"}

	chargeKinds = []string{"service_fee", "expense", "adjustment"}

	paymentSources = []string{"bank_transfer", "card", "ach", "sepa", "check"}

	payoutSources = []string{"payroll", "bank_transfer", "wise"}

	marginNotes = []string{"agreed discount", "rate under review", "trial month", "includes unbilled travel"}

	creditNotes = []string{"prepaid", "renewal", "promised on the phone", "goodwill after delay"}

	locations = []location{
		{"Springfield", "IL", "62701", "US"}, {"Austin", "TX", "78701", "US"}, {"Portland", "OR", "97201", "US"},
		{"Toronto", "ON", "M5H 2N2", "CA"}, {"Wien", "", "1010", "AT"}, {"Kraków", "", "31-042", "PL"},
		{"Dublin 2", "", "D02 XY45", "IE"}, {"東京都", "千代田区", "100-0001", "JP"}, {"São Paulo", "SP", "01310-100", "BR"},
	}

	streets = []string{"Main St", "Elm Avenue", "Harbour Rd", "Bahnhofstraße", "Rue de l’Église", "King \"Old\" St"}
)

// companyName returns the name of the n-th client, picked by r. Numbers keep the
// names of large agencies apart.
func companyName(n int, r uint64) string {
	if n%6 == 4 {
		return numbered(companiesWorldwide[r%uint64(len(companiesWorldwide))], n/60)
	}
	head := companyHeads[r%uint64(len(companyHeads))]
	tail := companyTails[r>>16%uint64(len(companyTails))]
	return numbered(head+" "+tail, n/12)
}

// personName returns the name of the n-th contractor, picked by r.
func personName(n int, r uint64) string {
	if n%5 == 3 {
		return peopleWorldwide[r%uint64(len(peopleWorldwide))]
	}
	return firstNames[r%uint64(len(firstNames))] + " " + lastNames[r>>16%uint64(len(lastNames))]
}

func numbered(name string, n int) string {
	if n == 0 {
		return name
	}
	return name + " " + strconv.Itoa(n+1)
}
