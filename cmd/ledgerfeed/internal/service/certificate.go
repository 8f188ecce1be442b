package service

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerfeed/ledgerfeed/internal/listening"
)

// loadCertificate reads the certificate with which the API and the console speak TLS,
// if there is one.
func (s *Service) loadCertificate() (err error) {
	set := &s.env.Settings
	if set.TLSCert == "" {
		return nil
	}
	s.certificate, err = listening.LoadCertificate(listening.CertificateConfig{CertFile: set.TLSCert, KeyFile: set.TLSKey, Clock: s.env.Clock, Logger: s.env.Logger})
	if err != nil {
		return fmt.Errorf("LEDGERFEED_TLS_CERT is %q and LEDGERFEED_TLS_KEY is %q: %w", set.TLSCert, set.TLSKey, err)
	}
	s.metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "ledgerfeed_tls_certificate_expiry_timestamp_seconds", Help: "When the TLS certificate of the API and the console ends, in seconds since 1970.",
	}, func() float64 { return float64(s.certificate.Expires().Unix()) }))
	return nil
}
