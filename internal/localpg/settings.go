//go:build unix

package localpg

import (
	"context"
	"maps"
	"slices"
)

// settingArgs returns the server's settings as command-line arguments. They are passed at each
// start instead of being written to postgresql.conf, so that a cluster made by an older version of
// this program gets the current ones.
func (s *setup) settingArgs(progs Programs) []string {
	settings := map[string]string{
		// Reachable through the socket directory only, which is private.
		"listen_addresses":        "",
		"unix_socket_directories": s.place.runDir(),
		"unix_socket_permissions": "0700",
		"port":                    "5432", // only part of the socket's name
		"hba_file":                s.place.file(hbaName),
		"ident_file":              s.place.file(identName),

		"cluster_name":    "ledgerfeed", // seen in ps
		"max_connections": "200",
		"shared_buffers":  "256MB",
		"timezone":        "UTC",
		"log_timezone":    "UTC",
		// A statement that fails may hold what an entry says about people (docs/operations/erasure.md).
		"log_min_error_statement": "panic",
		"log_error_verbosity":     "terse",
		"log_line_prefix":         "%m [%p] %q%a ",
		"log_checkpoints":         "off",
		"log_destination":         "stderr",
		"logging_collector":       "off",

		// Appends come in bursts; fewer checkpoints write fewer full pages.
		"max_wal_size":    "2GB",
		"min_wal_size":    "128MB",
		"wal_compression": "pglz",

		// Short queries by key: compiling them costs more than running them,
		// and data this size is cached or on a solid-state disk.
		"jit":              "off",
		"random_page_cost": "1.1",
	}
	if s.cfg.Throwaway {
		maps.Copy(settings, map[string]string{
			"shared_buffers":     "64MB",
			"fsync":              "off",
			"full_page_writes":   "off",
			"synchronous_commit": "off",
			"wal_level":          "minimal",
			"max_wal_senders":    "0",
			"wal_compression":    "off",
		})
	} else {
		if s.accepts(progs, "wal_compression", "lz4") {
			settings["wal_compression"] = "lz4"
		}
		if progs.HasLibrary("pg_stat_statements") {
			settings["shared_preload_libraries"] = "pg_stat_statements"
		}
	}
	if s.place.account.other() {
		// Shared memory in /dev/shm would be open to all processes of the account.
		settings["dynamic_shared_memory_type"] = "mmap"
	}
	maps.Copy(settings, s.opts.settings)

	var args []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		args = append(args, "-c", name+"="+settings[name])
	}
	return args
}

// accepts reports whether this build of the server supports a value of a setting.
func (s *setup) accepts(progs Programs, setting, value string) bool {
	args := []string{"-D", s.place.cluster(), "-C", setting, "-c", setting + "=" + value}
	return s.place.command(context.Background(), progs.Postgres, args).Run() == nil
}
