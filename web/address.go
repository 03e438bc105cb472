package web

import (
	"net/netip"
	"net/url"
	"strings"

	"spoolwright/server"
)

// Address returns the address of the farm, for labels, links and lines to copy: the farm's setting or, without it,
// PUBLIC_URL or, without both, the address that the browser uses. Pages name the last one a proposal.
func (v *visit) Address() string {
	switch {
	case v.FarmURL != "":
		return v.FarmURL
	case v.site.PublicURL != "":
		return v.site.PublicURL
	case v.site.server.IsSecure(v.r):
		return "https://" + v.r.Host
	}
	return "http://" + v.r.Host
}

// IsProposed reports whether the address of the farm is only that of the browser.
func (v *visit) IsProposed() bool { return v.FarmURL == "" && v.site.PublicURL == "" }

// HasPublicURL reports whether the setting PUBLIC_URL is set.
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

// AddressHint says where the address of the farm comes from.
func (v *visit) AddressHint() string {
	switch {
	case v.FarmURL != "":
		return v.t("Empty: the address of the service, or else of the browser.")
	case v.HasPublicURL():
		return v.t("Empty: %s, the address of the service.", v.site.PublicURL)
	case v.AddressIsLocal():
		return v.t("Such as %s or %s.", "https://farm.example", "http://192.168.1.20:8000")
	}
	return v.t("This is the address that your browser uses. Save it, or enter another one.")
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
