package transfer

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

// meter tells how far a long piece of work is, in entries.
type meter struct {
	verb  string
	total int64 // 0: not known
	done  atomic.Int64
}

// show writes a line from time to time until stop is called.
func (m *meter) show(out io.Writer) (stop func()) {
	return cli.ShowProgress(out, m.verb, m.line)
}

// line tells the entries done, the rate and, where the total is known, the time left.
func (m *meter) line(took time.Duration) string {
	done := m.done.Load()
	rate, left := cli.Rate(done, m.total, took)
	if m.total == 0 {
		return fmt.Sprintf("%s, %.0f/s", texts.Count(done, "entry", "entries"), rate)
	}
	return fmt.Sprintf("%d of %s, %.0f/s, %s left", done, texts.Count(m.total, "entry", "entries"), rate, left)
}
