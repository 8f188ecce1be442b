package doctor

import (
	"context"
	"fmt"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/service"
	"github.com/ledgerfeed/ledgerfeed/internal/standby"
)

// checkStandbys looks at the standbys that answers are read from.
func checkStandbys(ctx context.Context, x *examination) (list []Finding, err error) {
	is, err := service.LookAtStandbys(ctx, x.env, x.pool)
	switch {
	case err != nil:
		return nil, err
	case is == nil:
		return ok("answers are read from the primary alone"), nil
	case !is.Used:
		return []Finding{{
			Level: Warning, Text: fmt.Sprintf("answers are not read from the standbys at %s: %s", is.Name, is.Problem),
			Do: "bring them back, or take LEDGERFEED_READ_DATABASE_URL out of every process: until then the primary answers",
		}}, nil
	}
	advice, err := standby.Advise(ctx, x.env.Settings.ReadURL)
	if err != nil {
		return nil, err
	}
	if advice.Feedback && advice.Delay >= 0 {
		list = append(list, Finding{
			Level: Warning, Text: fmt.Sprintf("after %v, a standby at %s ends statements that block its replay: whole lists break off, and it lags until then", advice.Delay, is.Name),
			Do: "set hot_standby_feedback = on at the standby (docs/operations/standbys.md)",
		})
	}
	if advice.Stats {
		list = append(list, Finding{
			Level: Warning, Text: fmt.Sprintf("after a failover, the account at the standbys at %s needs minutes to see that they follow the new primary; until then they are not read from", is.Name),
			Do: "GRANT pg_read_all_stats to the account, at the primary",
		})
	}
	if len(list) == 0 {
		return ok("answers are read from the standbys at %s", is.Name), nil
	}
	return list, nil
}
