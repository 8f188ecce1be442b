package domain_test

import (
	"encoding/json"
	"math/big"
)

// oracleCredit is the credit of a client.
type oracleCredit struct {
	client   doc
	at       string // of the last change
	position int64
	general  *big.Rat
	currency any
	packages []doc
	history  []doc // oldest first
}

// credit returns a client's credit, which the entry changes; it makes it where there is none.
func (o *oracle) credit(client string) *oracleCredit {
	c := o.credits[client]
	if c == nil {
		c = &oracleCredit{general: new(big.Rat), client: doc{"id": client, "name": o.name("clients", client)}}
		o.credits[client] = c
	}
	c.at, c.position = o.at, o.position
	return c
}

func (c *oracleCredit) has(creditID any) bool {
	if c == nil {
		return false
	}
	for _, h := range c.history {
		if h["id"] == creditID {
			return true
		}
	}
	return false
}

// own is what the answer about one client shows.
func (c *oracleCredit) own() doc {
	d := c.doc()
	delete(d, "client")
	delete(d, "updated_at")
	return d
}

// foreign says whether amounts of a currency cannot be added to the credit.
func (c *oracleCredit) foreign(currency any) bool {
	return c != nil && c.currency != nil && c.currency != currency
}

func (c *oracleCredit) pkg(id any) doc {
	if c == nil {
		return nil
	}
	for _, p := range c.packages {
		if p["id"] == id {
			return p
		}
	}
	return nil
}

// note adds the history row that every credit entry with an effect adds.
func (o *oracle) note(c *oracleCredit, d doc, kind, amount any) {
	c.history = append(c.history, doc{
		"id": d["credit_id"], "date": orElse(d["date"], o.at[:10]), "kind": kind, "amount": amount,
		"invoice_id": d["invoice_id"], "invoice_number": d["invoice_number"], "note": d["note"],
	})
}

func (o *oracle) creditToppedUp(d doc) {
	client := d["client_id"].(string)
	if o.credits[client].has(d["credit_id"]) {
		o.refuse("repeat")
		return
	}
	given, withPackage := d["package"].(doc)
	if withPackage && o.credits[client].pkg(given["package_id"]) != nil {
		o.refuse("repeat")
		return
	}
	if o.credits[client].foreign(d["currency"]) {
		o.refuse("wrong_currency")
		return
	}
	c := o.credit(client)
	c.currency = d["currency"]
	if withPackage {
		c.packages = append(c.packages, doc{
			"id": given["package_id"], "service": given["service"],
			"amount_granted": money(d["amount"]), "amount_remaining": money(d["amount"]),
			"hours_remaining": shortest(given["hours"]), "expires_at": given["expires_at"], "status": "active",
		})
	} else {
		c.general = add(c.general, rat(d["amount"]))
	}
	o.note(c, d, orElse(d["kind"], "top_up"), money(d["amount"]))
}

func (o *oracle) creditMoved(d doc, kind string) {
	client := d["client_id"].(string)
	if o.credits[client].has(d["credit_id"]) {
		o.refuse("repeat")
		return
	}
	if d["package_id"] != nil && o.credits[client].pkg(d["package_id"]) == nil {
		o.refuse("unknown_object")
		return
	}
	if about := o.rows["invoices"][d["invoice_id"].(string)]; about != nil && o.credits[client].foreign(about.doc["currency"]) {
		o.refuse("wrong_currency")
		return
	}
	inv := o.known("invoices", d["invoice_id"]) // where the invoice is unknown, credit moves all the same
	c := o.credit(client)
	move := func(from, by *big.Rat) *big.Rat {
		if kind == "taken_back" {
			return add(from, by)
		}
		rest, short := floor(sub(from, by))
		if short {
			o.refuse("overdrawn")
		}
		return rest
	}
	if p := c.pkg(d["package_id"]); p != nil {
		p["amount_remaining"] = amount(move(rat(p["amount_remaining"]), rat(d["amount"])))
		if p["hours_remaining"] != nil {
			hours := move(rat(p["hours_remaining"]), rat(d["hours"]))
			p["hours_remaining"] = shortest(hours.FloatString(4))
		}
		switch {
		case p["status"] == "expired":
		case kind == "taken_back" && p["status"] == "used_up":
			p["status"] = "active"
		case kind == "applied" && p["amount_remaining"] == "0.00":
			p["status"] = "used_up"
		}
	} else {
		c.general = move(c.general, rat(d["amount"]))
	}
	o.note(c, d, kind, money(d["amount"]))
	if inv == nil {
		return
	}
	applied := rat(inv.doc["credit_applied"])
	if kind == "applied" {
		applied = add(applied, rat(d["amount"]))
	} else {
		var short bool
		if applied, short = floor(sub(applied, rat(d["amount"]))); short {
			o.refuse("overdrawn")
		}
	}
	inv.doc["credit_applied"] = amount(applied)
	o.net(inv)
	o.changed(inv)
}

func (o *oracle) creditExpired(d doc) {
	c := o.credits[d["client_id"].(string)]
	if c.has(d["credit_id"]) {
		o.refuse("repeat")
		return
	}
	p := c.pkg(d["package_id"])
	if p == nil {
		o.refuse("unknown_object")
		return
	}
	o.credit(d["client_id"].(string))
	o.note(c, d, "expired", p["amount_remaining"])
	p["status"], p["amount_remaining"] = "expired", "0.00"
	if p["hours_remaining"] != nil {
		p["hours_remaining"] = json.Number("0")
	}
}

// doc returns the credit as answers show it, the history newest first.
func (c *oracleCredit) doc() doc {
	balance := c.general
	packages, history := []any{}, []any{}
	for _, p := range c.packages {
		packages = append(packages, p)
		if p["status"] == "active" {
			balance = add(balance, rat(p["amount_remaining"]))
		}
	}
	for i := len(c.history) - 1; i >= 0; i-- {
		history = append(history, c.history[i])
	}
	return doc{
		"client": c.client, "updated_at": c.at,
		"balance": amount(balance), "general_credit": amount(c.general), "currency": c.currency,
		"packages": packages, "history": history,
	}
}
