package server

import (
	"fmt"
	"strings"
	"testing"
)

func TestClientAddr(t *testing.T) {
	const proxies = "127.0.0.1, ::1, 10.0.0.0/8, fd00::/8, ::ffff:172.16.0.0/108"
	for _, c := range []struct{ peer, xff, trusted, want string }{
		{"192.0.2.1:5000", "", "", "192.0.2.1"},
		{"192.0.2.1:5000", "198.51.100.7", "", "192.0.2.1"},
		{"192.0.2.1:5000", "198.51.100.7", proxies, "192.0.2.1"},
		{"192.0.2.1", "", "", "192.0.2.1"},

		{"127.0.0.1:5000", "", proxies, "127.0.0.1"},
		{"127.0.0.1:5000", "198.51.100.7", proxies, "198.51.100.7"},
		{"127.0.0.1:5000", "198.51.100.7, 10.1.2.3", proxies, "198.51.100.7"},
		{"127.0.0.1:5000", "1.1.1.1, 198.51.100.7,10.1.2.3 , 10.9.9.9", proxies, "198.51.100.7"},
		{"127.0.0.1:5000", "made up, 198.51.100.7", proxies, "198.51.100.7"},
		{"127.0.0.1:5000", "10.0.0.1, 10.0.0.2", proxies, "127.0.0.1"},
		{"[::1]:5000", "198.51.100.7", proxies, "198.51.100.7"},
		{"[::ffff:10.0.0.1]:5000", "198.51.100.7", proxies, "198.51.100.7"},
		{"172.31.0.1:5000", "198.51.100.7", proxies, "198.51.100.7"},
		{"172.32.0.1:5000", "198.51.100.7", proxies, "172.32.0.1"},
		{"10.0.0.1:5000", "198.51.100.7:41234", proxies, "198.51.100.7"},
		{"10.0.0.1:5000", "[2001:db8:1:2:3::4]:41234", proxies, "2001:db8:1:2::/64"},

		{"10.0.0.1:5000", "unknown", proxies, "10.0.0.1"},
		{"10.0.0.1:5000", "198.51.100.7, garbage, 10.0.0.2", proxies, "10.0.0.1"},
		{"10.0.0.1:5000", "198.51.100.7,", proxies, "10.0.0.1"},
		{"10.0.0.1:5000", ",,,,", proxies, "10.0.0.1"},
		{"10.0.0.1:5000", "198.51.100.777", proxies, "10.0.0.1"},
		{"@", "198.51.100.7", proxies, "@"},
		{"", "198.51.100.7", proxies, ""},

		{"[2001:db8:1:2:3:4:5:6]:5000", "", "", "2001:db8:1:2::/64"},
		{"[2001:db8:1:2:ffff::]:5000", "", "", "2001:db8:1:2::/64"},
		{"[2001:db8:1:3::]:5000", "", "", "2001:db8:1:3::/64"},
		{"[::ffff:192.0.2.1]:5000", "", "", "192.0.2.1"},
		{"[fe80::1%eth0]:5000", "", "", "fe80::/64"},
		{"[fd00::1%eth0]:5000", "198.51.100.7", proxies, "198.51.100.7"},
		{"10.0.0.1:5000", "::ffff:198.51.100.7", proxies, "198.51.100.7"},
		{"10.0.0.1:5000", "198.51.100.7", "0.0.0.0/0", "10.0.0.1"},
	} {
		trusted, err := ParsePrefixes(c.trusted)
		if err != nil {
			t.Fatal(err)
		}
		if got := clientAddr(c.peer, c.xff, trusted); got != c.want {
			t.Errorf("clientAddr(%q, %q, %q) = %q, want %q", c.peer, c.xff, c.trusted, got, c.want)
		}
	}
}

func TestParsePrefixes(t *testing.T) {
	for in, want := range map[string]string{
		"":                         "[]",
		" , ":                      "[]",
		"10.0.0.1":                 "[10.0.0.1/32]",
		"10.1.2.3/8,":              "[10.0.0.0/8]",
		"::1 , 2001:db8::1/32":     "[::1/128 2001:db8::/32]",
		"::ffff:10.0.0.1":          "[10.0.0.1/32]",
		"::ffff:10.0.0.0/104":      "[10.0.0.0/8]",
		"127.0.0.1,10.0.0.0/8,::1": "[127.0.0.1/32 10.0.0.0/8 ::1/128]",
	} {
		if got, err := ParsePrefixes(in); err != nil || fmt.Sprint(got) != want {
			t.Errorf("ParsePrefixes(%q) = %v, %v; want %s", in, got, err, want)
		}
	}
	for _, in := range []string{"localhost", "10.0.0.0/33", "10.0.0.0/8/8", "10.0.0", "*", "10.0.0.1:80",
		"fe80::1%eth0", "10.0.0.1 10.0.0.2", "1.1.1.1,/8"} {
		got, err := ParsePrefixes(in)
		if err == nil || got != nil || !strings.Contains(err.Error(), `"`) || strings.Contains(err.Error(), "\n") {
			t.Errorf("ParsePrefixes(%q) = %v, %v; want an error that names it", in, got, err)
		}
	}
}

func FuzzClientAddr(f *testing.F) {
	f.Add("10.0.0.1:5000", "198.51.100.7, 10.0.0.2")
	f.Add("[::1]:1", "[2001:db8::1]:2")
	trusted, _ := ParsePrefixes("127.0.0.0/8,::1,10.0.0.0/8")
	f.Fuzz(func(t *testing.T, peer, xff string) {
		got := clientAddr(peer, xff, trusted)
		if _, err := ParsePrefixes(got); err != nil && got != peer {
			t.Errorf("clientAddr(%q, %q) = %q", peer, xff, got)
		}
	})
}
