package domain_test

// Rows that leave, by what the contract says about readers: what somebody saw
// before an entry and does not see after it has left with that entry, and has
// come back as soon as it is seen again.

// oracleRemoved is a row that has left the sight of some readers.
type oracleRemoved struct {
	position                           int64
	at                                 string
	client, contractor, period, status any // when it was last seen
}

// sights are the lists that rows leave, with what a reader sees of them.
var sights = []struct {
	name, list string
	sees       func(doc) bool
}{
	{"time entries", "time_entries", func(doc) bool { return true }},
	{"charges with pay:read", "charges", func(doc) bool { return true }},
	{"charges without pay:read", "charges", func(row doc) bool { return row["billed_to_client"] == true }},
}

// seen lists what everybody sees now, with the values that filters ask for.
func (o *oracle) seen() map[string]map[string]oracleRemoved {
	all := map[string]map[string]oracleRemoved{}
	for _, sight := range sights {
		all[sight.name] = map[string]oracleRemoved{}
		for id, row := range o.rows[sight.list] {
			if !sight.sees(row.doc) {
				continue
			}
			r := oracleRemoved{client: idIn(row.doc["client"]), contractor: idIn(row.doc["contractor"]), period: row.doc["period"]}
			if sight.list == "time_entries" { // charges have no such filter
				r.status = row.doc["status"]
			}
			all[sight.name][id] = r
		}
	}
	return all
}

func idIn(party any) any {
	if p, ok := party.(doc); ok {
		return p["id"]
	}
	return nil
}

// noteRemoved compares what was seen before an entry with what is seen after it.
func (o *oracle) noteRemoved(before map[string]map[string]oracleRemoved) {
	for sight, now := range o.seen() {
		if o.removed[sight] == nil {
			o.removed[sight] = map[string]oracleRemoved{}
		}
		for id, was := range before[sight] {
			if _, still := now[id]; !still {
				was.position, was.at = o.position, o.at
				o.removed[sight][id] = was
			}
		}
		for id := range now {
			delete(o.removed[sight], id)
		}
	}
}
