//go:build full

package manual

import (
	"slices"
	"testing"

	"github.com/spf13/cobra"

	"github.com/ledgerfeed/ledgerfeed/internal/buildinfo"
)

func TestPages(t *testing.T) {
	t.Parallel()
	work := func(*cobra.Command, []string) {}
	root := &cobra.Command{Use: "feed", Short: "Feeds", Run: work}
	root.PersistentFlags().String("config", "", "the `FILE` of settings")
	key := &cobra.Command{Use: "key", Short: "Keys", Run: work}
	create := &cobra.Command{Use: "create [NAME]", Short: "Make a key", Long: "Make a key…\nof 'it'.\n\n  feed key create\n  .x \\n\n\n.y ends.", Example: "  feed key create -n 3", Run: work}
	create.Flags().IntP("number", "n", 2, "how many")
	create.Flags().StringSlice("scopes", []string{"a", "b"}, "what it may read")
	create.Flags().Bool("secret", false, "not described")
	create.Flags().Lookup("secret").Hidden = true
	list := &cobra.Command{Use: "list", Short: "List keys", Run: work}
	key.AddCommand(create, list)
	root.AddCommand(key, &cobra.Command{Use: "inner", Hidden: true, Run: work})

	pages := Pages(root, buildinfo.Info{Version: "v1.2.0", Date: "2026-11-22T23:30:00-03:00"})
	var names []string
	texts := map[string]string{}
	for _, p := range pages {
		names = append(names, p.Name)
		texts[p.Name] = string(p.Text)
	}
	if want := []string{"feed.1", "feed-key.1", "feed-key-create.1", "feed-key-list.1"}; !slices.Equal(names, want) {
		t.Errorf("pages %v, want %v", names, want)
	}
	want := `.TH "FEED\-KEY\-CREATE" "1" "2026-11-23" "feed v1.2.0" "Ledgerfeed"
.SH "NAME"
feed\-key\-create \- Make a key
.SH "SYNOPSIS"
.B "feed key create"
[NAME] [flags]
.SH "DESCRIPTION"
Make a key\[u2026]
of \(aqit\(aq.
.PP
.nf
  feed key create
  .x \en
.fi
.PP
\&.y ends.
.SH "OPTIONS"
.TP
\fB\-n\fR, \fB\-\-number\fR \fIint\fR
how many (default 2)
.TP
\fB\-\-scopes\fR \fIstrings\fR
what it may read (default a,b)
.SH "GLOBAL OPTIONS"
.TP
\fB\-\-config\fR \fIFILE\fR
the FILE of settings
.SH "EXAMPLES"
.nf
  feed key create \-n 3
.fi
.SH "EXIT STATUS"
0: done. 1: failed. 2: wrong usage.
.SH "SEE ALSO"
.BR "feed\-key" "(1),"
.BR "feed\-key\-list" "(1)"
`
	if got := texts["feed-key-create.1"]; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
