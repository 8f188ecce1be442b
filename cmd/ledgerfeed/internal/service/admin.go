package service

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// startAdmin starts what runs as long as the process: systemd's watchdog, and the listener
// for operators, which says whether the process is alive, whether it is ready for requests,
// and its metrics. It is not for the internet.
func (s *Service) startAdmin(ctx context.Context, ready http.HandlerFunc, metrics prometheus.Gatherer) error {
	r := chi.NewRouter()
	r.Use(middleware.GetHead)
	r.Get("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	r.Get("/readyz", ready)
	r.Method(http.MethodGet, "/metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{Registry: s.metrics, EnableOpenMetrics: true}))
	if s.env.Settings.PProf {
		profiles(r)
	}
	listener, err := s.bind(ctx, binding{name: AdminListener, setting: "LEDGERFEED_ADMIN_LISTEN", address: s.env.Settings.AdminListen, server: &http.Server{
		Handler:           r,
		ReadHeaderTimeout: 5 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       time.Minute,
		ErrorLog:          slog.NewLogLogger(s.env.Logger.Handler(), slog.LevelWarn),
	}})
	if err != nil {
		return err
	}
	s.admin = start(ctx, []component{listener, {"watchdog", func(ctx context.Context) error { return feedWatchdog(ctx, s.env.Logger) }}})
	return nil
}

// profiles offers what go tool pprof reads.
func profiles(r chi.Router) {
	r.Get("/debug/pprof/*", pprof.Index)
	r.Get("/debug/pprof/cmdline", pprof.Cmdline)
	r.Get("/debug/pprof/profile", pprof.Profile)
	r.Get("/debug/pprof/symbol", pprof.Symbol)
	r.Get("/debug/pprof/trace", pprof.Trace)
}
