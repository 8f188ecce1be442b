package agents_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/internal/agents"
	"github.com/ledgerfeed/ledgerfeed/internal/testkit"
	"github.com/ledgerfeed/ledgerfeed/projections/projectionstest"
	"github.com/ledgerfeed/ledgerfeed/readapi/access"
	"github.com/ledgerfeed/ledgerfeed/readapi/client"
	"github.com/ledgerfeed/ledgerfeed/readapi/readapitest"
)

// workspace is that of the fixtures which the questions are about.
const workspace = "agency-0"

// fixture makes a service with the fixtures, at a time when it still keeps all of their events. last
// is the position of the last entry.
func fixture(t *testing.T) (s *readapitest.Service, last int) {
	t.Helper()
	s = readapitest.New(t)
	s.Clock.Advance(time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC).Sub(s.Clock.Now()))
	var drafts []domain.Draft
	for line := range bytes.Lines(testkit.Must(os.ReadFile("../../domain/testdata/agency.ndjson"))(t)) {
		if d := projectionstest.Draft(t, line); d.WorkspaceID == workspace {
			drafts = append(drafts, d)
		}
	}
	s.Grow(drafts...)
	return s, len(drafts)
}

// agent is a scripted client of a server.
type agent struct{ *mcp.ClientSession }

// connect starts a server for a key of a workspace, and an agent that speaks with it.
func connect(t *testing.T, s *readapitest.Service, of string, permissions ...access.Permission) *agent {
	t.Helper()
	_, key := s.KeyOf(of, permissions...)
	api := testkit.Must(client.New(client.Config{URL: s.Address, Key: key, RetryFor: -1}))(t)
	server := testkit.Must(agents.New(t.Context(), api, "v1.2.3"))(t)
	here, there := mcp.NewInMemoryTransports()
	serving := testkit.Must(server.Connect(t.Context(), there, nil))(t)
	session := testkit.Must(mcp.NewClient(&mcp.Implementation{Name: "scripted", Version: "1"}, nil).Connect(t.Context(), here, nil))(t)
	t.Cleanup(func() {
		_ = session.Close()
		_ = serving.Wait()
	})
	return &agent{session}
}

// ask calls a tool, and returns its answer or what it refuses.
func (a *agent) ask(t *testing.T, tool string, arguments map[string]any) (answer map[string]any, refusal string) {
	t.Helper()
	result := testkit.Must(a.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments}))(t)
	text, ok := result.Content[0].(*mcp.TextContent)
	if !ok || len(result.Content) != 1 {
		t.Fatalf("%s: content %v, want one text", tool, result.Content)
	}
	if result.IsError {
		if result.StructuredContent != nil {
			t.Errorf("%s: a refusal with content: %v", tool, result.StructuredContent)
		}
		return nil, text.Text
	}
	answer, ok = result.StructuredContent.(map[string]any)
	var same map[string]any
	if err := json.Unmarshal([]byte(text.Text), &same); err != nil || !ok || !reflect.DeepEqual(same, answer) {
		t.Fatalf("%s: the text differs from the structured content: %v\n%s\n%v", tool, err, text.Text, answer)
	}
	return answer, ""
}

// differs says where an answer is not as wanted. Objects may have more members. Arrays have the same
// elements, in any order.
func differs(want, got any) string {
	switch want := want.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok {
			return fmt.Sprintf("%v, want an object", got)
		}
		for name, value := range want {
			if d := differs(value, object[name]); d != "" {
				return name + ": " + d
			}
		}
	case []any:
		rows, _ := got.([]any)
		if len(rows) != len(want) {
			return fmt.Sprintf("%d elements, want %d: %v", len(rows), len(want), rows)
		}
		rest := append([]any{}, rows...)
	each:
		for _, one := range want {
			for i := range rest {
				if differs(one, rest[i]) == "" {
					rest = append(rest[:i], rest[i+1:]...)
					continue each
				}
			}
			return fmt.Sprintf("there is no %v in %v", one, rest)
		}
	default:
		if !reflect.DeepEqual(want, got) {
			return fmt.Sprintf("%v, want %v", got, want)
		}
	}
	return ""
}

// says fails the test unless a refusal has all of the texts.
func says(t *testing.T, about, refusal string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(refusal, text) {
			t.Errorf("%s: %q does not say %q", about, refusal, text)
		}
	}
}
