package watchers

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"spoolwright/cli"
	"spoolwright/production/watch"
)

// Commands are the commands for watchers.
var Commands = []cli.Command{{
	Name: "watch", Args: "FILE [--test] [--certificates FILE]", Needs: cli.Settings,
	Help: "watch the printers in this network, and send their states to a service elsewhere\n\n" +
		"FILE has the address of the service, an API key of the role watcher, and the addresses and keys of the\n" +
		"printers, which stay in this network. docs/watching.md describes it. The command needs no database, and\n" +
		"sends nothing to printers that changes what they do. Of the settings, it uses LOG_FORMAT and LOG_LEVEL.",
	Setup: func(flags *flag.FlagSet) cli.Run {
		test := flags.Bool("test", false, "test the connection to each printer, and exit")
		pins := flags.String("certificates", "",
			"keep the certificates of Bambu Lab's printers in this `FILE`; without it, in FILE.certificates")
		return func(ctx context.Context, c *cli.Call) error {
			f, err := readFile(c.Operands[0])
			if err != nil {
				return cli.Misuse{Err: fmt.Errorf("%s: %w", c.Operands[0], err)}
			}
			if *pins == "" {
				*pins = c.Operands[0] + ".certificates"
			}
			if info, err := os.Stat(c.Operands[0]); err == nil && info.Mode().Perm()&0o007 != 0 {
				c.Config.Log.Warn("all users of this machine can read the file with the keys of the printers")
			}
			p, err := readPins(*pins)
			if err != nil {
				return fmt.Errorf("%s: %w", *pins, err)
			}
			if *test {
				return f.test(ctx, p, c.Out)
			}
			return f.watch(ctx, p, c.Config.Log)
		}
	},
}}

// file is what a watcher in the network of a farm knows.
type file struct {
	Service  string // its address
	Key      string
	Name     string // of the watcher, which no other one of the farm has
	Printers []struct {
		Printer string // its name in the farm
		watch.Connection
	}
}

func readFile(name string) (*file, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	f := &file{}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(f); err != nil {
		return nil, err
	}
	if f.Name == "" {
		f.Name, _ = os.Hostname()
	}
	f.Service = strings.TrimRight(f.Service, "/")
	u, err := url.Parse(f.Service)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Path != "" || u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("service: must be an address such as https://farm.example")
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		return nil, errors.New("service: must begin with https://, because the key would be sent in plain text")
	case f.Key == "":
		return nil, errors.New("key: is missing; an admin creates an API key of the role watcher")
	case f.Name == "" || len(f.Name) > 100 || f.Name == serviceName:
		return nil, errors.New("name: must be a name of this watcher, which no other one of the farm has")
	case len(f.Printers) == 0:
		return nil, errors.New("printers: there are none")
	}
	known := map[string]bool{}
	for i, p := range f.Printers {
		name := strings.ToLower(strings.TrimSpace(p.Printer))
		if name == "" || known[name] {
			return nil, fmt.Errorf("printers[%d].printer: must be the name of a printer, once", i)
		}
		if err := watch.Check(p.Connection); err != nil {
			return nil, fmt.Errorf("printers[%d]: %w", i, err)
		}
		known[name] = true
	}
	return f, nil
}

func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

// pins are the certificates of printers, by serial number, in a file.
type pins struct {
	name string
	mu   sync.Mutex
	all  map[string]string
}

func readPins(name string) (*pins, error) {
	p := &pins{name: name, all: map[string]string{}}
	text, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return p, nil
	} else if err != nil {
		return nil, errors.Unwrap(err)
	}
	return p, json.Unmarshal(text, &p.all)
}

// with returns the connection with the certificate of its printer, if it is known.
func (p *pins) with(c watch.Connection) watch.Connection {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.Fingerprint = cmp.Or(c.Fingerprint, p.all[c.Serial])
	return c
}

// add stores a certificate, unless there is one.
func (p *pins) add(serial, fingerprint string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if serial == "" || p.all[serial] != "" {
		return nil
	}
	next := maps.Clone(p.all)
	next[serial] = fingerprint
	text, err := json.MarshalIndent(next, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(p.name+".new", append(text, '\n'), 0o600); err != nil {
		return err
	}
	if err := os.Rename(p.name+".new", p.name); err != nil {
		return err
	}
	p.all = next
	return nil
}

// test tests the connections, some at a time, and writes the results in the order of the file.
func (f *file) test(ctx context.Context, p *pins, out io.Writer) error {
	lines, failed := make([]string, len(f.Printers)), make([]bool, len(f.Printers))
	turns := make(chan bool, 16)
	var testing sync.WaitGroup
	for i, printer := range f.Printers {
		testing.Go(func() {
			turns <- true
			defer func() { <-turns }()
			found, err := watch.Test(ctx, p.with(printer.Connection), nil)
			lines[i] = strings.Join(strings.Fields(found.State+" "+found.File+" "+found.Message), " ")
			if failed[i] = err != nil; err != nil {
				lines[i] = err.Error()
			}
		})
	}
	testing.Wait()
	bad := 0
	for i, line := range lines {
		fmt.Fprintf(out, "%s: %s\n", f.Printers[i].Printer, line)
		if failed[i] {
			bad++
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d printers cannot be watched", bad, len(lines))
	}
	return nil
}

// namesRetry is the pause between requests for the names of printers while the service does not answer.
const namesRetry = 10 * time.Second

// errKey means that the service refuses the key.
var errKey = errors.New("the service refuses the key: it must be an API key of the role watcher that is not revoked")

// watch watches until ctx ends.
func (f *file) watch(ctx context.Context, p *pins, log *slog.Logger) error {
	s := sink{f.caller()}
	var ids map[string]string
	for {
		var err error
		if ids, err = s.names(ctx); err == nil {
			break
		} else if errors.Is(err, errKey) {
			return err
		}
		log.Warn("cannot read the names of the printers; trying again", "service", f.Service, "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(namesRetry):
		}
	}
	var all []watch.Printer
	for _, printer := range f.Printers {
		id := ids[strings.ToLower(strings.TrimSpace(printer.Printer))]
		if id == "" {
			log.Warn("the farm has no printer with this name: it is not watched", "printer", printer.Printer)
			continue
		}
		all = append(all, watch.Printer{ID: id, Connection: p.with(printer.Connection)})
	}
	if len(all) == 0 {
		return errors.New("the farm has none of the printers")
	}
	w := watch.New(f.Name, s, nil, log)
	w.Pinned = func(printer watch.Printer, fingerprint string) {
		if err := p.add(printer.Serial, fingerprint); err != nil {
			log.Warn("cannot store the certificate of a printer", "printer", printer.ID, "error", err)
		}
	}
	w.Set(all)
	log.Info("watching", "printers", len(all), "service", f.Service, "name", f.Name)
	w.Run(ctx)
	log.Info("stopped")
	return nil
}

// names returns the ids of the printers of the farm, by name in lower case.
func (s sink) names(ctx context.Context) (map[string]string, error) {
	ids := map[string]string{}
	for skip := 0; ; skip += 100 {
		var out struct {
			Items []struct{ ID, Name string }
			Total int
		}
		_, err := s.do(ctx, "GET", "/api/v1/printers/names?limit=100&skip="+strconv.Itoa(skip), nil, &out)
		if err != nil {
			return nil, err
		}
		for _, p := range out.Items {
			ids[strings.ToLower(p.Name)] = p.ID
		}
		if skip+100 >= out.Total {
			return ids, nil
		}
	}
}

// maxAnswer is the maximum size of a response of the service, in bytes.
const maxAnswer = 64 << 20

// caller returns calls to the service by HTTP.
func (f *file) caller() call {
	client := &http.Client{Timeout: time.Minute,
		// The key must not follow a redirect.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return func(ctx context.Context, method, path string, body []byte) (int, []byte, error) {
		r, err := http.NewRequestWithContext(ctx, method, f.Service+path, bytes.NewReader(body))
		if err != nil {
			return 0, nil, err
		}
		r.Header.Set("X-API-Key", f.Key)
		r.Header.Set("User-Agent", "Spoolwright-watch/"+cli.Version)
		if body != nil {
			r.Header.Set("Content-Type", "application/json")
		}
		answer, err := client.Do(r)
		if err != nil {
			return 0, nil, err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
		if answer.StatusCode == 401 || answer.StatusCode == 403 {
			err = errKey
		}
		return answer.StatusCode, text, err
	}
}
