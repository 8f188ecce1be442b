package settings

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestTheChartKnowsEverySetting: the Helm chart takes every setting, but for those that
// it has itself and those that come from Secrets.
func TestTheChartKnowsEverySetting(t *testing.T) {
	t.Parallel()
	const file = "../../packaging/helm/ledgerfeed/values.schema.json"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Defs struct {
			Settings struct{ Properties map[string]any }
		} `json:"$defs"`
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	known := schema.Defs.Settings.Properties
	own := []string{
		"LEDGERFEED_DATA_DIR", "LEDGERFEED_LISTEN", "LEDGERFEED_CONSOLE_LISTEN", "LEDGERFEED_ADMIN_LISTEN", "LEDGERFEED_INGEST_LISTEN", "LEDGERFEED_TLS_CERT", "LEDGERFEED_TLS_KEY",
	}
	fields := reflect.TypeFor[Settings]()
	for i := range fields.NumField() {
		tag := fields.Field(i).Tag
		variable := tag.Get("env")
		wanted := tag.Get("secret") == "" && !slices.Contains(own, variable)
		if _, ok := known[variable]; ok != wanted {
			t.Errorf("%s, $defs.settings: %s is there: %v, want %v", file, variable, ok, wanted)
		}
		delete(known, variable)
	}
	for variable := range known {
		if variable != "GOGC" && variable != "GOMEMLIMIT" && !strings.HasPrefix(variable, "OTEL_") {
			t.Errorf("%s, $defs.settings: there is no setting %s", file, variable)
		}
	}
}
