package watchers

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"spoolwright/db"
	"spoolwright/production/printers"
	"spoolwright/production/watch"
	"spoolwright/server"
	"spoolwright/value/language"
	"spoolwright/webhooks"
)

// Service watches the printers of all farms that have connections. Several instances may run one each: a farm is
// watched by one of them. It calls the operations of the API as the watcher of a farm does.
type Service struct {
	API         *server.Server
	DB          *db.DB
	Connections *printers.Connections
	Dial        watch.Dial
	Log         *slog.Logger
}

const (
	maxFarms   = 1000 // of one Service; other instances watch further ones
	pollEvery  = 2 * time.Second
	leaseFor   = time.Minute
	checkEvery = 5 * time.Second // whether another instance watches the farm
	pinWithin  = 10 * time.Second
)

// serviceName is the name of the watcher in leases of printers. It is the same in all instances, because only one of
// them has the lease of the farm, and so one that starts need not wait until the leases of the last one end.
const serviceName = "Spoolwright"

// Dial returns the function that connects to printers in the networks, and to no other address.
func Dial(networks []netip.Prefix) watch.Dial {
	dialer := webhooks.NewDialer(webhooks.Config{AllowedNetworks: networks}, false)
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, address)
		if errors.Is(err, webhooks.ErrAddress) {
			return nil, &watch.Problem{Code: "network", Text: language.Sprintf(
				"The service may not connect to %s: its setting WATCH_NETWORKS does not have the address.", address)}
		}
		return conn, err
	}
}

// Run watches until ctx ends, and then for some seconds sends what is left.
func (s *Service) Run(ctx context.Context) {
	farms, err := printers.WakeWatchers(ctx, s.DB)
	if err != nil && ctx.Err() == nil {
		s.Log.Warn("cannot look for all farms with connections of printers", "error", err)
	}
	if farms > 1 {
		s.Log.Warn("the admins of all farms may connect to all addresses in WATCH_NETWORKS", "farms", farms)
	}
	queue := db.Worker{DB: s.DB, Log: s.Log, Kind: db.Watch, Active: maxFarms, Poll: pollEvery, Lease: leaseFor,
		Handle: s.watch}
	queue.Run(ctx)
}

// watch watches the printers of a farm until ctx ends, another instance has the lease, or the farm has no connections.
func (s *Service) watch(ctx context.Context, l *db.Lease) (next *float64, err error) {
	bound := db.As(ctx, db.Actor{Tenant: l.Tenant})
	log := s.Log.With("tenant", l.Tenant)
	w := watch.New(serviceName, sink{s.caller(l.Tenant)}, s.Dial, log)
	w.Pinned = func(p watch.Printer, fingerprint string) {
		limited, cancel := context.WithTimeout(bound, pinWithin)
		defer cancel()
		if err := s.Connections.Pin(limited, p.ID, p.Serial, fingerprint); err != nil && ctx.Err() == nil {
			log.Warn("cannot store the certificate of a printer", "printer", p.ID, "error", err)
		}
	}
	set := func() (some bool, err error) {
		all, err := s.Connections.Watched(bound)
		if err != nil && all == nil {
			return true, err
		} else if err != nil {
			log.Warn("cannot use the key of a printer", "error", err)
		}
		w.Set(all)
		return len(all) > 0, nil
	}
	if some, err := set(); err != nil || !some {
		return nil, err
	}
	watching, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { w.Run(watching) })
	defer running.Wait()
	defer stop()
	check := time.NewTicker(checkEvery)
	defer check.Stop()
	var failed bool // the last call of set
	for {
		select {
		case <-ctx.Done():
			return new(0.0), nil
		case <-check.C:
			if l.Lost() {
				return nil, nil
			}
			if !failed {
				continue
			}
		case <-l.More:
		}
		some, err := set()
		if failed = err != nil; failed && ctx.Err() == nil {
			log.Warn("cannot read the connections of printers; trying again", "error", err)
		} else if !some {
			return nil, nil
		}
	}
}

// caller returns the calls of a farm's watcher, in this process.
func (s *Service) caller(tenant string) call {
	who := server.Caller{Actor: db.Actor{Tenant: tenant}, Level: server.Write, Watcher: true}
	return func(ctx context.Context, method, path string, body []byte) (int, []byte, error) {
		r, err := http.NewRequestWithContext(ctx, method, path, nil)
		if err != nil {
			return 0, nil, err
		}
		answer := s.API.Call(r, who, method, path, nil, body)
		return answer.Status, answer.Body, nil
	}
}
