package webhooks

import (
	"net/netip"
	"testing"
)

func TestIsPublic(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"8.8.8.8": true, "1.1.1.1": true, "172.32.0.1": true, "100.63.255.255": true, "100.128.0.0": true,
		"2606:4700:4700::1111": true, "2a00:1450::1": true, "::ffff:8.8.8.8": true, "198.20.0.0": true,

		"0.0.0.0": false, "0.1.2.3": false, "10.1.2.3": false, "127.0.0.1": false, "127.255.255.255": false,
		"169.254.169.254": false, "172.16.0.1": false, "172.31.255.255": false, "192.168.0.1": false,
		"100.64.0.0": false, "100.100.100.200": false, "100.127.255.255": false, "168.63.129.16": false,
		"192.0.0.192": false, "192.0.2.1": false, "192.88.99.1": false, "198.18.0.1": false, "198.19.255.255": false,
		"198.51.100.1": false, "203.0.113.1": false, "224.0.0.1": false, "239.1.1.1": false, "240.0.0.1": false,
		"255.255.255.255": false,

		"::": false, "::1": false, "fe80::1": false, "fe80::1%eth0": false, "fc00::1": false, "fd00:ec2::254": false,
		"fec0::1": false, "ff02::1": false, "64:ff9b::a9fe:a9fe": false, "64:ff9b:1::1": false, "100::1": false,
		"2001::1": false, "2001:0:a9fe:a9fe::": false, "2001:2::1": false, "2001:10::1": false, "2001:20::1": false,
		"2001:db8::1": false, "2002:7f00:1::": false, "3fff::1": false, "5f00::1": false, "::127.0.0.1": false,
		"::ffff:127.0.0.1": false, "::ffff:10.0.0.1": false, "::ffff:169.254.169.254": false,
		"::ffff:0:127.0.0.1": false,
		"2606:4700::1%eth0":  false,
	} {
		if got := isPublic(netip.MustParseAddr(text)); got != want {
			t.Errorf("isPublic(%s) = %v", text, got)
		}
	}
	if isPublic(netip.Addr{}) || isAllowed(netip.Addr{}, true, nil) {
		t.Error("no address is public")
	}
	networks := []netip.Prefix{netip.MustParsePrefix("192.168.1.0/24")}
	for text, want := range map[string]struct{ tls, plain bool }{
		"192.168.1.7": {true, true}, "::ffff:192.168.1.7": {true, true}, "192.168.2.7": {false, false},
		"8.8.8.8": {true, false},
	} {
		addr := netip.MustParseAddr(text)
		if tls, plain := isAllowed(addr, true, networks), isAllowed(addr, false, networks); tls != want.tls ||
			plain != want.plain {
			t.Errorf("isAllowed(%s) = %v with TLS and %v without", text, tls, plain)
		}
	}
}
