package localpg

import (
	"maps"
	"slices"
)

// settingArgs are the command-line settings of the server. They are given at
// each start, not written into postgresql.conf, so that a cluster made by an
// older version of this program gets the present ones.
func settingArgs(job assignment, progs programs) []string {
	settings := map[string]string{
		// Reachable through the socket directory only, which is private.
		"listen_addresses":        "",
		"unix_socket_directories": job.Place.runDir(),
		"unix_socket_permissions": "0700",
		"port":                    "5432", // names the socket, nothing else

		"cluster_name":      "ledgerfeed", // seen in ps
		"max_connections":   "200",
		"shared_buffers":    "256MB",
		"timezone":          "UTC",
		"log_timezone":      "UTC",
		"log_line_prefix":   "%m [%p] %q%a ",
		"log_checkpoints":   "off",
		"log_destination":   "stderr",
		"logging_collector": "off",

		// Appends come in bursts; fewer checkpoints write fewer full pages.
		"max_wal_size":    "2GB",
		"min_wal_size":    "128MB",
		"wal_compression": "pglz",

		// Short queries by key: compiling them costs more than running them,
		// and data this size is cached or on a solid-state disk.
		"jit":              "off",
		"random_page_cost": "1.1",
	}
	if job.Throwaway {
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
		if progs.has("wal_compression", "lz4", job.Place) {
			settings["wal_compression"] = "lz4"
		}
		if progs.hasLibrary("pg_stat_statements") {
			settings["shared_preload_libraries"] = "pg_stat_statements"
		}
	}
	maps.Copy(settings, job.Settings)

	var args []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		args = append(args, "-c", name+"="+settings[name])
	}
	return args
}
