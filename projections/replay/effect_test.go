package replay_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/ledgerfeed/ledgerfeed/domain"
	"github.com/ledgerfeed/ledgerfeed/projections/replay"
)

// TestEffectIsTheDifferenceOfTwoFolds: at every tenth position, what EffectOf says of each
// row is how a fold up to the entry differs from one up to the entry before it.
func TestEffectIsTheDifferenceOfTwoFolds(t *testing.T) {
	t.Parallel()
	b := projected(t)
	// Streams differ from day to day, and not each deletes a row.
	b.Append([]domain.Draft{
		draft(t, `{"workspace_id":"ws-1","id":"made","type":"charge.created","data":{"charge_id":"ch_deleted","client_id":"cl_000001","date":"2026-10-01","category":"x","kind":"y","amount":"1.00","currency":"EUR","period":"2026-10"}}`),
		draft(t, `{"workspace_id":"ws-1","id":"deleted","type":"charge.deleted","data":{"charge_id":"ch_deleted"}}`),
	})
	b.Project(1000)
	entries, err := b.Log.Read(t.Context(), "ws-1", 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	r := b.replayer()
	state, changed, deleted := domain.NewState(), 0, 0
	for i := range entries {
		position := entries[i].Position
		before := answers(state)
		state.Apply(&entries[i])
		if position%10 != 0 && entries[i].Type != "charge.deleted" {
			continue
		}
		after := answers(state)
		for resource := range after {
			rows := map[string]bool{}
			for id := range after[resource] {
				rows[id] = before[resource][id] != after[resource][id]
			}
			for id := range before[resource] {
				rows[id] = before[resource][id] != after[resource][id]
			}
			for id, differs := range rows {
				if !differs {
					continue
				}
				changed++
				effect, err := r.EffectOf(t.Context(), replay.EffectRequest{WorkspaceID: "ws-1", Position: position, Resource: resource, ID: id})
				if err != nil || effect == nil || effect.Row == nil {
					t.Fatalf("position %d, %s %s: %v %v", position, resource, id, effect, err)
				}
				was, is := decode(t, before[resource][id]), decode(t, after[resource][id])
				if effect.Row.Made != (was == nil) || effect.Row.Deleted != (is == nil) {
					t.Errorf("position %d, %s %s: %+v", position, resource, id, effect.Row)
				}
				if is == nil {
					deleted++
				}
				seen := map[string]bool{}
				for _, f := range effect.Row.Fields {
					seen[f.Name] = true
					if string(was[f.Name]) != f.Before || string(is[f.Name]) != f.After {
						t.Errorf("position %d, %s %s: %s from %s to %s, want from %s to %s", position, resource, id, f.Name, f.Before, f.After, was[f.Name], is[f.Name])
					}
				}
				for _, fields := range []map[string]json.RawMessage{was, is} {
					for name := range fields {
						if string(was[name]) != string(is[name]) && !seen[name] {
							t.Errorf("position %d, %s %s: %s is missing", position, resource, id, name)
						}
					}
				}
				others := 0
				for _, o := range effect.Others {
					others += o.Rows
				}
				if others != count(before, after)-1 {
					t.Errorf("position %d, beside %s %s: %d rows changed, want %d", position, resource, id, others, count(before, after)-1)
				}
			}
		}
	}
	if changed < 100 || deleted < 1 {
		t.Errorf("%d rows changed, %d were deleted", changed, deleted)
	}
}

// TestEffectOfALongLog is not looked for.
func TestEffectOfALongLog(t *testing.T) {
	t.Parallel()
	r := projected(t).replayer()
	effect, err := r.EffectOf(t.Context(), replay.EffectRequest{WorkspaceID: "ws-1", Position: replay.MostForEffect + 1})
	if effect != nil || err != nil {
		t.Errorf("%v %v", effect, err)
	}
	var unknown *replay.UnknownResourceError
	if _, err := r.EffectOf(t.Context(), replay.EffectRequest{WorkspaceID: "ws-1", Position: 1, Resource: "keys"}); !errors.As(err, &unknown) {
		t.Errorf("an unknown resource: %v", err)
	}
}

// count is how many rows differ.
func count(before, after map[string]map[string]string) (n int) {
	for resource, rows := range after {
		for id, row := range rows {
			if before[resource][id] != row {
				n++
			}
		}
		for id := range before[resource] {
			if _, there := rows[id]; !there {
				n++
			}
		}
	}
	return n
}
