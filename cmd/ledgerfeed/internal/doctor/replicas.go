package doctor

import (
	"context"
	"fmt"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/service"
	"github.com/ledgerfeed/ledgerfeed/internal/plural"
	"github.com/ledgerfeed/ledgerfeed/internal/replica"
)

// checkReplicas looks at the replicas that answers are read from.
func checkReplicas(ctx context.Context, x *examination) ([]Finding, error) {
	states, addresses, err := service.LookAtReplicas(ctx, x.env, x.pool)
	if err != nil {
		return nil, err
	}
	if len(states) == 0 {
		return ok("answers are read from the primary alone"), nil
	}
	var list []Finding
	for i, is := range states {
		if !is.Used {
			list = append(list, Finding{
				Level: Warning, Text: fmt.Sprintf("the replica %s is not read from: %s", is.Name, is.Problem),
				Do: "bring it back, or take its address out of LEDGERFEED_READ_DATABASE_URL of every process: until then the other servers answer, and webhooks come later by LEDGERFEED_READ_MAX_LAG",
			})
			continue
		}
		found, err := adviseReplica(ctx, addresses[i])
		if err != nil {
			return nil, err
		}
		list = append(list, found...)
	}
	if len(list) == 0 {
		return ok("%s read from", plural.Of(len(states), "replica is", "replicas are")), nil
	}
	return list, nil
}

func adviseReplica(ctx context.Context, a replica.Address) (list []Finding, err error) {
	is, err := replica.Advise(ctx, a)
	if err != nil {
		return nil, err
	}
	if is.Feedback && is.Delay >= 0 {
		list = append(list, Finding{
			Level: Warning, Text: fmt.Sprintf("the replica %s ends statements that are in the way of what it must replay after %v: whole lists are broken off, and it lags until then", a.Name, is.Delay),
			Do: "set hot_standby_feedback = on at the replica (docs/operations/replicas.md)",
		})
	}
	if is.Stats {
		list = append(list, Finding{
			Level: Warning, Text: fmt.Sprintf("the account at the replica %s sees only minutes after a failover that the replica follows the new primary, and is not read from until then", a.Name),
			Do: "GRANT pg_read_all_stats to the account, at the primary",
		})
	}
	return list, nil
}
