package cli

import (
	"crypto/tls"
	"log/slog"
	"os"
	"sync"
	"time"
)

// newTLSConfig returns a TLS configuration with the certificate chain and the private key of two PEM files. It loads
// the files again when they change. If that fails, it logs a warning and keeps the previous certificate.
func newTLSConfig(certFile, keyFile string, log *slog.Logger) (*tls.Config, error) {
	k := &keyPair{certFile: certFile, keyFile: keyFile, log: log}
	if _, err := k.get(nil); err != nil {
		return nil, err
	}
	return &tls.Config{GetCertificate: k.get, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}},
		nil
}

// keyPair is a certificate that is loaded again when its files change.
type keyPair struct {
	certFile, keyFile string
	log               *slog.Logger

	mu       sync.Mutex
	loaded   *tls.Certificate
	modified [2]time.Time // of the two files when they were loaded
	failed   [2]time.Time // of the two files when loading failed and was logged
	checked  time.Time
}

// get returns the certificate. It looks for changed files at most once a second.
func (k *keyPair) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.loaded != nil && time.Since(k.checked) < time.Second {
		return k.loaded, nil
	}
	k.checked = time.Now()
	var modified [2]time.Time
	for i, path := range []string{k.certFile, k.keyFile} {
		if info, err := os.Stat(path); err == nil {
			modified[i] = info.ModTime()
		}
	}
	if k.loaded != nil && modified == k.modified {
		return k.loaded, nil
	}
	pair, err := tls.LoadX509KeyPair(k.certFile, k.keyFile)
	switch {
	case err == nil:
		k.loaded, k.modified = &pair, modified
	case k.loaded == nil:
		return nil, err
	case modified != k.failed: // the files may be written only partially; each state is logged once
		k.failed = modified
		k.log.Warn("certificate reload failed; keeping the previous one", "error", err)
	}
	return k.loaded, nil
}
