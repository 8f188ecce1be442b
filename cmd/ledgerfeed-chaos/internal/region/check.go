//go:build linux

package region

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed-chaos/internal/check"
)

// Check checks at the end that everything went through once and in order.
func (r *Region) Check(ctx context.Context) (Figures, error) {
	ids, malformed, err := r.offered(ctx)
	if err != nil {
		return r.figures, err
	}
	dead, err := r.count(ctx, shop, `SELECT count(*) FROM `+table+`_dead`)
	if err != nil {
		return r.figures, err
	}
	logs := map[string]*check.Log{}
	for _, database := range []string{home, away} {
		err := r.with(ctx, database, func(conn *pgx.Conn) error {
			logs[database], err = check.ReadLog(ctx, conn)
			return err
		})
		if err != nil {
			return r.figures, err
		}
		logs[database].CheckWhole(time.Now(), r.cfg.Findings)
		if _, err := r.cfg.Cluster.OutputAt(ctx, r.Server.URLOf(database), "verify"); err != nil {
			r.cfg.Findings.Add(check.RuleVerify, "of the installation %s, at the end: %v", database, err)
		}
	}
	messages, err := r.stored(ctx)
	if err != nil {
		return r.figures, err
	}
	logs[home].CheckIngested(ids, malformed, dead, r.cfg.Findings)
	repeats := logs[home].CheckRelayed(messages, r.cfg.Findings)
	logs[home].CheckFollower(logs[away], r.cfg.Findings)
	for _, list := range ids {
		r.figures.Offered += len(list)
	}
	r.figures.Refused, r.figures.Stored, r.figures.Repeats, r.figures.Followed = dead, len(messages), repeats, logs[away].Count()
	return r.figures, nil
}

// readTimeout bounds reading a message of the stream.
const readTimeout = 20 * time.Second

// stored reads the messages that the broker holds, in their order.
func (r *Region) stored(ctx context.Context) ([]check.Relayed, error) {
	conn, err := nats.Connect(r.nats, nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true))
	if err != nil {
		return nil, fmt.Errorf("connect to the broker: %w", err)
	}
	defer conn.Close()
	js, err := conn.JetStream(nats.MaxWait(readTimeout))
	if err != nil {
		return nil, fmt.Errorf("read the stream: %w", err)
	}
	info, err := js.StreamInfo("LEDGERFEED", nats.Context(ctx))
	if err != nil {
		return nil, fmt.Errorf("read the stream: %w", err)
	}
	sub, err := js.SubscribeSync("", nats.BindStream("LEDGERFEED"), nats.OrderedConsumer(), nats.DeliverAll())
	if err != nil {
		return nil, fmt.Errorf("read the stream: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }() // its connection is closed
	list := make([]check.Relayed, 0, info.State.Msgs)
	for range info.State.Msgs {
		msg, err := sub.NextMsg(readTimeout)
		if err != nil {
			return nil, fmt.Errorf("read the stream: %w", err)
		}
		position, err := strconv.ParseInt(msg.Header.Get("position"), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("read the position of a message: %w", err)
		}
		list = append(list, check.Relayed{
			Workspace: msg.Header.Get("workspace_id"), Position: position, Chain: msg.Header.Get("chain"), Line: string(msg.Data),
		})
	}
	return list, nil
}
