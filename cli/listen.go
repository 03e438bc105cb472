package cli

import (
	"crypto/tls"
	"fmt"
	"net"
)

// Listeners accept the connections of the service.
type Listeners struct{ API, Metrics net.Listener } // Metrics may be nil

// Listen opens the listeners. The service calls it first, so that a start with an address in use changes nothing.
func Listen(c Config) (l Listeners, err error) {
	var secure *tls.Config
	if c.TLSCert != "" {
		if secure, err = newTLSConfig(c.TLSCert, c.TLSKey, c.Log); err != nil {
			return l, Misuse{fmt.Errorf("TLS_CERT_FILE and TLS_KEY_FILE: %w", err)}
		}
	}
	if l.API, err = net.Listen("tcp", c.Listen); err != nil {
		return l, fmt.Errorf("LISTEN_ADDR: %w", err)
	}
	if c.MetricsAddr != "" {
		if l.Metrics, err = net.Listen("tcp", c.MetricsAddr); err != nil {
			l.API.Close()
			return l, fmt.Errorf("METRICS_ADDR: %w", err)
		}
	}
	if public(l.Metrics) {
		c.Log.Warn("METRICS_ADDR accepts connections from other machines: /metrics and /debug/pprof/ need no token, " +
			"so only a private network may reach them")
	}
	if public(l.API) && secure == nil && !c.TLSSelfSigned && len(c.TrustedProxies) == 0 {
		c.Log.Warn("LISTEN_ADDR accepts connections from other machines without TLS: passwords and API keys are sent " +
			"unencrypted; set TLS_CERT_FILE and TLS_KEY_FILE, TLS_SELF_SIGNED=on, or TRUSTED_PROXIES for a proxy with TLS")
	}
	if secure != nil {
		l.API = tls.NewListener(l.API, secure)
	}
	return l, nil
}

// public reports whether a listener accepts connections from other machines. The listener may be nil.
func public(l net.Listener) bool {
	if l == nil {
		return false
	}
	address, ok := l.Addr().(*net.TCPAddr)
	return ok && !address.IP.IsLoopback()
}

// Close closes the listeners.
func (l Listeners) Close() {
	l.API.Close()
	if l.Metrics != nil {
		l.Metrics.Close()
	}
}

// BaseURL returns the address of the API for a client on this machine.
func (c Config) BaseURL(l Listeners) string {
	return c.localURL(l.API.Addr().String())
}
