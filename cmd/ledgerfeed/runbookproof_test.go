//go:build outside

package main

import (
	"strings"

	"github.com/ledgerfeed/ledgerfeed/internal/witness/witnesstest"
)

func tryTreesBehind(x *tried) {
	x.serve("api,project")
	sound := x.until("ledgerfeed_state_read_timestamp_seconds", above(0))
	x.judge("sound", sound, sound, false)
	x.exec(`ALTER TABLE event_tile RENAME TO gone`)
	x.append("invoice.issued", `{"invoice_id":"in_1","invoice_number":"1","amount":"420.00"}`)
	x.older("2 minutes")
	broken := x.until("ledgerfeed_tree_lag_seconds", above(60))
	x.judge("broken", broken, broken, true)
	x.hasOnItsPage(`"cannot process entries of a workspace" with the consumer ` + "`event_trees`")
	if log := x.serving.log.String(); !strings.Contains(log, "cannot process entries of a workspace") || !strings.Contains(log, "consumer=event_trees") {
		x.Errorf("the log does not say why:\n%s", log)
	}
	x.exec(`ALTER TABLE gone RENAME TO event_tile`)
	x.serving.stop()
	x.serve("api,project")
	mended := x.until("ledgerfeed_tree_lag_seconds", zero)
	x.judge("mended", mended, mended, false)
}

// witness is one that the instance names.
type witness struct {
	*witnesstest.Witness

	x       *tried
	address string
	stop    func()
}

// withWitness has the instance sign, and name a witness that knows no log yet.
func (x *tried) withWitness() *witness {
	x.Helper()
	w := &witness{Witness: witnesstest.New(x.T, "witness.example.com/w1"), x: x, address: "127.0.0.1:0"}
	w.serve()
	own, _ := newSigningKey(x.T)
	x.settings = []string{"LEDGERFEED_SIGNING_KEY=" + own, "LEDGERFEED_BASE_URL=https://api.example.com", "LEDGERFEED_WITNESSES=" + w.VerifierKey + "=http://" + w.address}
	return w
}

// knowsOwn lets the witness know the trees of the instance.
func (w *witness) knowsOwn() {
	w.x.Helper()
	for _, tree := range []string{"events", "events-with-pay"} {
		show := command(w.x.T, "", "signing-key", "show", "--name", "api.example.com/acme/"+tree)
		show.Env = append(show.Env, w.x.settings[0])
		w.Know(w.x.T, strings.TrimSpace(runCommand(w.x.T, show).out))
	}
}

func (w *witness) serve() {
	w.x.Helper()
	w.address, w.stop = w.Listen(w.x.T, w.address)
}

// cosigned waits until the witness has cosigned something new.
func (w *witness) cosigned() {
	w.x.Helper()
	w.x.append("invoice.issued", `{"invoice_id":"in_1","invoice_number":"1","amount":"420.00"}`)
	w.x.until(`ledgerfeed_witness_trees_total{outcome="cosigned"`, above(0))
}

func tryWitnessRefuses(x *tried) {
	w := x.withWitness()
	x.serve("api,project")
	before := scrapeOf(x.T, x.admin)
	x.append("invoice.issued", `{"invoice_id":"in_1","invoice_number":"1","amount":"420.00"}`)
	was := before.values
	broken := x.until(`ledgerfeed_witness_trees_total{outcome="refused"`, above(0))
	for name := range broken.values { // that it was there with 0 is what an increase is counted from
		if _, there := was[name]; !there && strings.HasPrefix(name, "ledgerfeed_witness_trees_total") {
			x.Errorf("%s was not there before", name)
		}
		if strings.HasPrefix(name, `ledgerfeed_witness_trees_total{outcome="refused"`) {
			before.values[name] = 0 // it may have refused what was there when it started
		}
	}
	x.judge("broken", before, broken, true)
	x.hasOnItsPage(`"a witness refuses a checkpoint"`)
	x.serving.await("a witness refuses a checkpoint")
	w.knowsOwn()
	w.cosigned()
	mended := scrapeOf(x.T, x.admin)
	x.judge("mended", mended, mended, false)
}

func tryWitnessAway(x *tried) {
	w := x.withWitness()
	w.knowsOwn()
	x.serve("api,project")
	w.cosigned()
	sound := x.until("ledgerfeed_witness_waiting_workspaces", zero)
	x.judge("sound", sound, sound, false)
	w.stop()
	x.append("invoice.issued", `{"invoice_id":"in_1","invoice_number":"1","amount":"420.00"}`)
	x.serving.await("a witness does not cosign")
	broken := x.until("ledgerfeed_witness_waiting_workspaces", above(0))
	x.judge("broken", broken, broken, true)
	x.hasOnItsPage(`"a witness does not cosign"`)
	w.serve()
	mended := x.until("ledgerfeed_witness_waiting_workspaces", zero)
	x.judge("mended", mended, mended, false)
}
