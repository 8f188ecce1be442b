package main

import (
	"context"
	"slices"

	"github.com/ledgerfeed/ledgerfeed/internal/heap"
)

// Benchmark measures one side of the program.
type Benchmark struct {
	Name  string
	Short string // what it measures, for the help

	options *Options
	parts   []part
	// setUp makes what the parts share and calls work; nil: they share nothing.
	setUp func(ctx context.Context, work func(context.Context) error) error
}

// part is what can be measured without the rest.
type part struct {
	name    string
	measure func(context.Context) error
}

// All are the benchmarks, which measure with these options.
func All(o *Options) []Benchmark {
	r := &reading{}
	return []Benchmark{
		{
			Name: "log", Short: "Appending and projecting", options: o, setUp: asServed, parts: []part{
				{"append", o.with(appendingEntries)}, {"project", o.with(projecting)},
			},
		}, {
			Name: "read", Short: "The read API", options: o, parts: []part{
				{"pages", r.pages}, {"depths", r.depths}, {"small", r.small}, {"checks", r.checks},
				{"unchanged", r.unchanged}, {"memory", r.steady}, {"visible", r.visible},
			},
			setUp: o.reads(r),
		}, {
			Name: "deliver", Short: "Webhooks", options: o, setUp: asServed, parts: []part{
				{"backlog", o.with(deliverBacklog)}, {"pace", o.with(deliverPaced)},
				{"hanging", o.with(deliverBesideHanging)}, {"reports", o.with(deliverBesideReports)},
			},
		}, {
			Name: "replay", Short: "Folding the log again: verify and rebuild", options: o, parts: []part{
				{"all", o.with(replaying)},
			},
		},
	}
}

// asServed works with a heap like that of a process that serves.
func asServed(ctx context.Context, work func(context.Context) error) error {
	restore := heap.LetGrow()
	defer restore()
	return work(ctx)
}

// with binds a measurement to options.
func (o *Options) with(measure func(context.Context, *Options) error) func(context.Context) error {
	return func(ctx context.Context) error { return measure(ctx, o) }
}

// Parts are the names of what can be measured without the rest.
func (b *Benchmark) Parts() []string {
	names := make([]string, len(b.parts))
	for i, p := range b.parts {
		names[i] = p.name
	}
	return names
}

// Measure measures the parts of Options.Only, or all.
func (b *Benchmark) Measure(ctx context.Context) error {
	work := func(ctx context.Context) error {
		for _, p := range b.parts {
			if only := b.options.Only; len(only) > 0 && !slices.Contains(only, p.name) {
				continue
			}
			if err := p.measure(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	if b.setUp == nil {
		return work(ctx)
	}
	return b.setUp(ctx, work)
}
