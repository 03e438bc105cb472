package cli

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// HealthCommand is the command health. Container images use it, because they contain no other HTTP client.
var HealthCommand = Command{
	Name: "health", Args: "[--ready]",
	Help: "check whether the service on this machine runs\n\n" +
		"Sends GET /healthz, or /readyz with --ready, to LISTEN_ADDR. The exit status is 0 if the response\n" +
		"within 5 seconds is 200, otherwise 1. /readyz is also not 200 while the database is away.",
	Needs: Settings,
	Setup: func(flags *flag.FlagSet) Run {
		ready := flags.Bool("ready", false, "check whether the service can answer requests")
		return func(ctx context.Context, c *Call) error {
			path := "/healthz"
			if *ready {
				path = "/readyz"
			}
			return askHealth(ctx, c.Config, path)
		}
	},
}

func askHealth(ctx context.Context, c Config, path string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	url := c.localURL(c.Listen) + path
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	// The connection does not leave this machine, and the certificate is for the public host name.
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", url, response.Status)
	}
	return nil
}

// localURL returns the URL of an API that listens on the address, for a client on this machine.
func (c Config) localURL(address string) string {
	scheme := "http"
	if c.TLSCert != "" || c.TLSSelfSigned {
		scheme = "https"
	}
	host, port, _ := net.SplitHostPort(address)
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}
