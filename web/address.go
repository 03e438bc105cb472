package web

import (
	"net/netip"
	"net/url"
	"strings"

	"spoolwright/server"
)

// Address returns the address of the farm, for labels, links and lines to copy: the setting PUBLIC_URL or, without it,
// the address that the browser uses.
func (v *visit) Address() string {
	switch {
	case v.site.PublicURL != "":
		return v.site.PublicURL
	case v.site.server.IsSecure(v.r):
		return "https://" + v.r.Host
	}
	return "http://" + v.r.Host
}

// HasPublicURL reports whether the setting PUBLIC_URL is the address of the farm.
func (v *visit) HasPublicURL() bool { return v.site.PublicURL != "" }

// AddressIsLocal reports whether the address of the farm works only on the machine of the service.
func (v *visit) AddressIsLocal() bool {
	u, err := url.Parse(v.Address())
	if err != nil {
		return false
	}
	name := strings.ToLower(u.Hostname())
	ip, err := netip.ParseAddr(name)
	return err == nil && (ip.Unmap().IsLoopback() || ip.IsUnspecified()) ||
		name == "localhost" || strings.HasSuffix(name, ".localhost")
}

// HasAuthority reports whether the service has an authority of its own, whose certificate people can install.
func (v *visit) HasAuthority() bool { return v.site.Authority != nil }

// showAuthority sends the certificate of the service's own authority. Without Content-Disposition, phones offer to
// install it.
func showAuthority(v *visit) error {
	if v.site.Authority == nil {
		return server.ErrNotFound
	}
	v.w.Header().Set("Content-Type", "application/x-x509-ca-cert")
	_, err := v.w.Write(v.site.Authority())
	return err
}
