package domain

// fold applies one entry to a State. An effect is a function of a fold and the entry's data.
type fold struct {
	stamp
	*State
	eventID string
}

// anomaly records why the entry could not have its full effect, each reason at most once.
func (f *fold) anomaly(reason Reason) {
	for i := len(f.Anomalies) - 1; i >= 0 && f.Anomalies[i].Position == f.position; i-- {
		if f.Anomalies[i].Reason == reason {
			return
		}
	}
	f.Anomalies = append(f.Anomalies, Anomaly{Position: f.position, EventID: f.eventID, Reason: reason})
}

// client returns a reference to a client, with its current name.
func (f *fold) client(id string) Party {
	p := Party{ID: id}
	if c := f.Clients.Get(id); c != nil {
		p.Name = c.Name
	}
	return p
}

// contractor returns a reference to a contractor, with its current name.
func (f *fold) contractor(id string) Party {
	p := Party{ID: id}
	if c := f.Contractors.Get(id); c != nil {
		p.Name = c.Name
	}
	return p
}

// rename writes a party's new name into every row that refers to it. rel is byClient or
// byContractor.
func rename(f *fold, rel relation, id, name string) {
	field := "client"
	if rel == byContractor {
		field = "contractor"
	}
	renamed := change{of: []reference{{rel, id}}, set: []value{{field, Party{ID: id, Name: name}}}}
	changeAll(f, &f.Invoices, renamed)
	changeAll(f, &f.Charges, renamed)
	changeAll(f, &f.TimeEntries, renamed)
	changeAll(f, &f.Payments, renamed)
}
