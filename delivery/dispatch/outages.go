package dispatch

import (
	"log/slog"

	"github.com/ledgerfeed/ledgerfeed/internal/periodic"
)

// outages are the log states of what a Dispatcher does again and again. While the database is
// away, each is one line, and one more when it is back.
type outages struct {
	searching, claiming, reading, renewing, taking periodic.Outage
}

func newOutages(logger *slog.Logger) *outages {
	o := &outages{}
	for _, of := range []struct {
		outage           *periodic.Outage
		failing, working string
	}{
		{&o.searching, "cannot search for webhooks with something to deliver; trying again until it works", "webhooks with something to deliver are found again"},
		{&o.claiming, "cannot claim webhooks; trying again until it works", "webhooks are claimed again"},
		{&o.reading, "cannot read what is to be delivered; trying again until it works", "what is to be delivered is read again"},
		{&o.renewing, "cannot renew the lease for delivering; trying again until it works", "the lease for delivering is renewed again"},
		{&o.taking, "cannot take a lease for delivering; trying again until it works", "there is a lease for delivering again"},
	} {
		of.outage.Logger, of.outage.Failing, of.outage.Working = logger, of.failing, of.working
	}
	return o
}
