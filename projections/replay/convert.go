package replay

import (
	"context"
	"time"

	"github.com/ledgerfeed/ledgerfeed/internal/audit"
)

// convertAgain is the least time between two conversions of a workspace. While
// processes of an older version still project, they mark it as theirs again with
// every entry.
const convertAgain = time.Minute

// convert rebuilds the rows of a workspace that were made by older rules. That
// is an audit too, because all rows are compared with the log. A workspace whose
// log is not what was appended cannot be rebuilt: it is only audited, which
// reports what is wrong, and tried again in an hour.
func (a *Auditor) convert(ctx context.Context, id string) error {
	list, err := a.replay.sizes(ctx, id)
	if err != nil {
		return err
	}
	b, err := a.replay.rebuild(audit.AsService(ctx), list[0], rebuildScope{})
	switch {
	case ctx.Err() != nil:
		return a.release(ctx, id)
	case err != nil:
		return a.failed(ctx, id, "cannot rebuild a workspace whose rows were made by older rules", err)
	case b.Refused != "":
		if err := a.audit(ctx, id); err != nil {
			return err
		}
		return a.store(ctx, id, `error = $2, claimed_until = $3`, b.Refused, a.cfg.Clock().Add(retryAfter))
	}
	a.converted.Inc()
	a.cfg.Logger.InfoContext(ctx, "the rows of a workspace were made by older rules and have been rebuilt", "workspace", id,
		"position", b.Position, "rules_before", b.RulesBefore, "rules", b.Rules, "written", b.Written, "deleted", b.Deleted)
	return a.store(ctx, id, `audited_at = $2, position = $3, differences = 0, error = NULL, claimed_until = NULL`, a.cfg.Clock(), b.Position)
}

// release gives a claim back when the program ends.
func (a *Auditor) release(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	return a.store(ctx, id, `claimed_until = NULL`)
}

// failed notes that a workspace could not be worked on, and leaves it alone for
// an hour.
func (a *Auditor) failed(ctx context.Context, id, what string, err error) error {
	a.audited.WithLabelValues(auditFailed).Inc()
	a.cfg.Logger.ErrorContext(ctx, what, "workspace", id, "error", err, "retry_in", retryAfter)
	return a.store(ctx, id, `differences = NULL, error = $2, claimed_until = $3`, err.Error(), a.cfg.Clock().Add(retryAfter))
}
