package server

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// ParsePrefixes reads a comma-separated list of IP addresses and CIDR prefixes. An empty list is nil.
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

// clientAddr returns whom a request counts for: an IPv4 address, or the /64 network of an IPv6 address, for that is what one
// customer of a provider has. It is the peer, unless that is a trusted proxy: then the right-most address in X-Forwarded-For that
// is not a trusted one. Whatever stands left of that could be made up.
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

// parseAddr reads an address with or without a port, as RemoteAddr has it and some proxies send it.
func parseAddr(s string) (netip.Addr, bool) {
	address, err := netip.ParseAddr(s)
	if err != nil {
		var withPort netip.AddrPort
		withPort, err = netip.ParseAddrPort(s)
		address = withPort.Addr()
	}
	return address.Unmap().WithZone(""), err == nil
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
