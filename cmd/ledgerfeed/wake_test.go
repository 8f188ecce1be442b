//go:build full

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/cli"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit/natscluster"
)

// TestWakeURL: a process says whether NATS carries its notifications, at /readyz, in its
// metrics, in its log and by doctor; without NATS it stays ready, and nothing shows the
// password.
func TestWakeURL(t *testing.T) {
	t.Parallel()
	url, servers := testkit.NewDatabase(t), natscluster.Start(t, 1)
	setting := "LEDGERFEED_WAKE_URL=" + strings.Replace(servers.URL(), "nats://", "nats://ledgerfeed:hunter2@", 1)
	serving := command(t, url, "serve", "--roles", "project")
	serving.Env = append(serving.Env, setting)
	p := startProcess(t, serving)
	admin := strings.TrimSpace(strings.TrimPrefix(p.await("for=admin"), " url="))
	// is waits until the process and doctor say that NATS carries notifications, or not.
	is := func(connected bool, says string) {
		t.Helper()
		testkit.Eventually(t, func() error {
			status, text := bodyOf(t, admin+"/readyz")
			var answer struct {
				Notifications []struct {
					By, Reason string
					Connected  bool
				}
			}
			if err := json.Unmarshal([]byte(text), &answer); err != nil {
				return fmt.Errorf("%s: %w", text, err)
			}
			list := answer.Notifications
			if status != http.StatusOK || len(list) != 2 || list[0].By != "nats" || list[0].Connected != connected || (list[0].Reason == "") != connected || list[1].By != "postgresql" || !list[1].Connected {
				return fmt.Errorf("%d: %s", status, text)
			}
			return nil
		})
		value := "0"
		if connected {
			value = "1"
		}
		if _, text := bodyOf(t, admin+"/metrics"); !strings.Contains(text, `ledgerfeed_notifications_connected{by="nats"} `+value) {
			t.Errorf("the metrics do not say %s", value)
		}
		c := command(t, url, "doctor")
		c.Env = append(c.Env, setting)
		if r := runCommand(t, c); !strings.Contains(r.out, says) || strings.Contains(r.out+r.errOut, "hunter2") {
			t.Errorf("doctor: %+v", r)
		}
	}
	is(true, "over NATS; those of producers in SQL")
	servers.Kill(0)
	is(false, "NATS at LEDGERFEED_WAKE_URL carries no notifications")
	c := command(t, url, "append")
	c.Env = append(c.Env, setting)
	c.Stdin = strings.NewReader(`{"workspace_id":"acme","type":"client.recorded","data":{"client_id":"c","name":"N"}}` + "\n")
	if r := runCommand(t, c); r.code != cli.ExitDone || strings.Contains(r.out+r.errOut, "hunter2") {
		t.Errorf("append without NATS: %+v", r)
	}
	servers.Run(0)
	is(true, "over NATS")
	if p.stop() != cli.ExitDone || strings.Contains(p.log.String(), "hunter2") || !strings.Contains(p.log.String(), "cannot receive notifications of other processes") {
		t.Errorf("logged:\n%s", p.log)
	}
}
