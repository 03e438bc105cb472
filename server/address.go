package server

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// ParsePrefixes parses a comma-separated list of IP addresses and CIDR prefixes. It returns nil for an empty list.
func ParsePrefixes(s string) ([]netip.Prefix, error) {
	var prefixes []netip.Prefix
	for part := range strings.SplitSeq(s, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		var prefix netip.Prefix
		var err error
		if strings.Contains(part, "/") {
			prefix, err = netip.ParsePrefix(part)
		} else {
			var address netip.Addr
			address, err = netip.ParseAddr(part)
			if address.Zone() != "" {
				err = errors.New("zone")
			}
			prefix = netip.PrefixFrom(address, address.BitLen())
		}
		if err != nil {
			return nil, fmt.Errorf("%q is neither an IP address nor a CIDR prefix", part)
		}
		if prefix.Addr().Is4In6() && prefix.Bits() >= 96 {
			prefix = netip.PrefixFrom(prefix.Addr().Unmap(), prefix.Bits()-96)
		}
		prefixes = append(prefixes, prefix.Masked())
	}
	return prefixes, nil
}

// clientAddr returns the client's address for logs and limits: an IPv4 address, or the /64 network of an IPv6 address,
// because providers assign a /64 or more to one customer. The client is the peer or, if the peer is a trusted proxy,
// the last address in X-Forwarded-For that is not a trusted proxy. Clients can forge earlier addresses in the header.
func clientAddr(remoteAddr, xff string, trusted []netip.Prefix) string {
	peer, ok := parseAddr(remoteAddr)
	if !ok {
		return remoteAddr
	}
	if len(trusted) == 0 || xff == "" || !isTrusted(peer, trusted) {
		return addrKey(peer)
	}
	for more := true; more; {
		var last string
		if comma := strings.LastIndexByte(xff, ','); comma >= 0 {
			xff, last = xff[:comma], xff[comma+1:]
		} else {
			last, more = xff, false
		}
		address, ok := parseAddr(strings.TrimSpace(last))
		if !ok {
			break
		}
		if !isTrusted(address, trusted) {
			return addrKey(address)
		}
	}
	return addrKey(peer)
}

// parseAddr parses an address with or without a port.
func parseAddr(s string) (netip.Addr, bool) {
	address, err := netip.ParseAddr(s)
	if err != nil {
		var withPort netip.AddrPort
		withPort, err = netip.ParseAddrPort(s)
		address = withPort.Addr()
	}
	return address.Unmap().WithZone(""), err == nil
}

// isTrustedPeer reports whether the peer of a connection is a trusted proxy.
func isTrustedPeer(remoteAddr string, trusted []netip.Prefix) bool {
	peer, ok := parseAddr(remoteAddr)
	return ok && isTrusted(peer, trusted)
}

func isTrusted(address netip.Addr, trusted []netip.Prefix) bool {
	return slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(address) })
}

func addrKey(address netip.Addr) string {
	if address.Is6() {
		return netip.PrefixFrom(address, 64).Masked().String()
	}
	return address.String()
}

// Address returns the client's address, as in the rate limits.
func Address(r *http.Request) string { return infoOf(r).address }

// IsSecure reports whether the client sent the request over TLS, either to the service or, according to
// X-Forwarded-Proto, to a trusted proxy.
func (s *Server) IsSecure(r *http.Request) bool {
	return r.TLS != nil || isTrustedPeer(r.RemoteAddr, s.TrustedProxies) &&
		strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}

// IsLoopback reports whether the client runs on the machine of the service and connects without a proxy.
func IsLoopback(r *http.Request) bool {
	peer, ok := parseAddr(r.RemoteAddr)
	host, _ := parseAddr(r.Host)
	name, _, _ := strings.Cut(r.Host, ":")
	return ok && peer.IsLoopback() && (host.IsLoopback() || name == "localhost") &&
		r.Header["X-Forwarded-For"] == nil && r.Header["Forwarded"] == nil
}
