package status

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/service"
	"github.com/ledgerfeed/ledgerfeed/internal/plural"
)

// writeConnections lists the processes that serve, and what PostgreSQL has left for others.
func writeConnections(out io.Writer, u *service.ServerUse, pooled bool) error {
	if len(u.Processes) == 0 {
		fmt.Fprintln(out, "\nNo process that serves is connected.")
	} else {
		t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "\nPROCESS\tADDRESS\tCONNECTIONS\tAT MOST\tROLES")
		for _, p := range u.Processes {
			fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%s\n", orDash(p.Mark), orDash(p.Address), p.Connections, p.Most, strings.Join(p.Roles, ","))
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "PostgreSQL: %d of %d connections %s in use, %s left (%s reserved)\n", u.Used, u.Max, plural.Word(u.Used, "is", "are"), plural.Of(u.Left, "is", "are"), plural.Of(u.Reserved, "is", "are"))
	switch {
	case pooled:
		fmt.Fprintln(out, "Connections through the pooler are not told apart; a process is seen by the one that it has past it.")
	case u.Warning != "":
		fmt.Fprintln(out, "Warning: there are too few for another process: "+u.Warning)
	}
	return nil
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
