package webhooks

import (
	"net/netip"
	"slices"
)

// special are the networks outside of the public internet, except the networks that the methods of netip.Addr
// recognize. All IPv6 networks outside of 2000::/3 are special, including NAT64 (64:ff9b::/96) and discard-only
// (100::/64).
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),        // this network
	netip.MustParsePrefix("100.64.0.0/10"),    // shared by customers of a provider (CGNAT); metadata of Alibaba Cloud
	netip.MustParsePrefix("168.63.129.16/32"), // metadata of Azure
	netip.MustParsePrefix("192.0.0.0/24"),     // protocol assignments; metadata of Oracle Cloud
	netip.MustParsePrefix("192.0.2.0/24"),     // documentation
	netip.MustParsePrefix("192.88.99.0/24"),   // relays of 6to4
	netip.MustParsePrefix("198.18.0.0/15"),    // benchmarking
	netip.MustParsePrefix("198.51.100.0/24"),  // documentation
	netip.MustParsePrefix("203.0.113.0/24"),   // documentation
	netip.MustParsePrefix("224.0.0.0/4"),      // multicast
	netip.MustParsePrefix("240.0.0.0/4"),      // reserved, broadcast
	netip.MustParsePrefix("2001::/23"),        // protocol assignments: Teredo, benchmarking, ORCHID
	netip.MustParsePrefix("2001:db8::/32"),    // documentation
	netip.MustParsePrefix("2002::/16"),        // 6to4, which contains IPv4 addresses
	netip.MustParsePrefix("3fff::/20"),        // documentation
}

var global = netip.MustParsePrefix("2000::/3") // the IPv6 addresses that are assigned to the public internet

// isPublic reports whether the address belongs to the public internet.
func isPublic(addr netip.Addr) bool {
	addr = addr.Unmap()
	return addr.IsGlobalUnicast() && !addr.IsPrivate() && addr.Zone() == "" && (addr.Is4() || global.Contains(addr)) &&
		!contains(special, addr)
}

// isAllowed reports whether a receiver may have the address: a public address with TLS, or an address in the allowed
// networks.
func isAllowed(addr netip.Addr, tls bool, allowed []netip.Prefix) bool {
	return tls && isPublic(addr) || contains(allowed, addr.Unmap().WithZone(""))
}

func contains(networks []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(networks, func(network netip.Prefix) bool { return network.Contains(addr) })
}
