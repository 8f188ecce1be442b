//go:build outside

package main

import (
	"os"
	"path/filepath"
	"strings"
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
	x.hasOnItsPage(`"cannot handle" with the consumer ` + "`event_trees`")
	if log := x.serving.log.String(); !strings.Contains(log, "cannot handle") || !strings.Contains(log, "consumer=event_trees") {
		x.Errorf("the log does not say why:\n%s", log)
	}
	x.exec(`ALTER TABLE gone RENAME TO event_tile`)
	x.serving.stop()
	x.serve("api,project")
	mended := x.until("ledgerfeed_tree_lag_seconds", zero)
	x.judge("mended", mended, mended, false)
}

// witness is one of the instance's own, which knows the logs of a file.
type witness struct {
	x                       *tried
	logs, key, dir, address string
	running                 *process
}

// withWitness has the instance sign, and name a witness that knows no log yet.
func (x *tried) withWitness() *witness {
	x.Helper()
	dir := x.TempDir()
	key, verifier := newWitnessKey(x.T)
	w := &witness{x: x, logs: filepath.Join(dir, "logs"), key: key, dir: dir, address: "127.0.0.1:0"}
	other, _ := newSigningKey(x.T)
	w.knows(other)
	w.serve()
	own, _ := newSigningKey(x.T)
	x.settings = []string{"LEDGERFEED_SIGNING_KEY=" + own, "LEDGERFEED_BASE_URL=https://api.example.com", "LEDGERFEED_WITNESSES=" + verifier + "=http://" + w.address}
	return w
}

// knows has the witness know the log of a key, when it is started.
func (w *witness) knows(signingKey string) {
	w.x.Helper()
	show := command(w.x.T, "", "signing-key", "show", "--name", "api.example.com/acme/events")
	show.Env = append(show.Env, "LEDGERFEED_SIGNING_KEY="+signingKey)
	pay := command(w.x.T, "", "signing-key", "show", "--name", "api.example.com/acme/events-with-pay")
	pay.Env = append(pay.Env, "LEDGERFEED_SIGNING_KEY="+signingKey)
	if err := os.WriteFile(w.logs, []byte(runCommand(w.x.T, show).out+runCommand(w.x.T, pay).out), 0o600); err != nil {
		w.x.Fatal(err)
	}
}

func (w *witness) serve() {
	w.x.Helper()
	w.running = startProcess(w.x.T, command(w.x.T, "", "witness", "serve", "--listen", w.address, "--state", filepath.Join(w.dir, "state"), "--key-file", w.key, "--logs", w.logs))
	w.address, _, _ = strings.Cut(w.running.await("address="), " ")
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
	own, _ := strings.CutPrefix(x.settings[0], "LEDGERFEED_SIGNING_KEY=")
	w.running.stop()
	w.knows(own)
	w.serve()
	w.cosigned()
	mended := scrapeOf(x.T, x.admin)
	x.judge("mended", mended, mended, false)
}

func tryWitnessAway(x *tried) {
	w := x.withWitness()
	own, _ := strings.CutPrefix(x.settings[0], "LEDGERFEED_SIGNING_KEY=")
	w.running.stop()
	w.knows(own)
	w.serve()
	x.serve("api,project")
	w.cosigned()
	sound := x.until("ledgerfeed_witness_waiting_workspaces", zero)
	x.judge("sound", sound, sound, false)
	w.running.kill()
	x.append("invoice.issued", `{"invoice_id":"in_1","invoice_number":"1","amount":"420.00"}`)
	x.serving.await("a witness does not cosign")
	broken := x.until("ledgerfeed_witness_waiting_workspaces", above(0))
	x.judge("broken", broken, broken, true)
	x.hasOnItsPage(`"a witness does not cosign"`)
	w.serve()
	mended := x.until("ledgerfeed_witness_waiting_workspaces", zero)
	x.judge("mended", mended, mended, false)
}
