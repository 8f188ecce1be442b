package status

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/service"
	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

// writeConnections lists the processes that serve, and what PostgreSQL has left for others.
func writeConnections(out io.Writer, u *service.ServerUse, pooled bool) error {
	if len(u.Processes) == 0 {
		fmt.Fprintln(out, "\nNo process that serves is connected.")
	} else {
		err := cli.Table(out, "\nPROCESS\tADDRESS\tCONNECTIONS\tLIMIT\tROLES", u.Processes, func(p *service.Process) string {
			return fmt.Sprintf("%s\t%s\t%d\t%d\t%s", cmp.Or(p.Mark, "-"), cmp.Or(p.Address, "-"), p.Connections, p.Most, strings.Join(p.Roles, ","))
		})
		if err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "PostgreSQL: %d of %d connections %s in use, %s left (%s reserved)\n", u.Used, u.Max, texts.Plural(u.Used, "is", "are"), texts.Count(u.Left, "is", "are"), texts.Count(u.Reserved, "is", "are"))
	switch {
	case pooled:
		fmt.Fprintln(out, "Connections through the pooler are not told apart; a process is seen by the one that it has past it.")
	case u.Warning != "":
		fmt.Fprintln(out, "Warning: there are too few for another process: "+u.Warning)
	}
	return nil
}
