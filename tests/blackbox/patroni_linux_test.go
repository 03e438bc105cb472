package blackbox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spoolwright/tests/testkit"
)

// TestHighAvailability builds the cluster of docs/high-availability.md on loopback addresses: three PostgreSQL with
// Patroni, etcd, and HAProxy. One instance of the service reaches the primary through HAProxy, another one with a URL
// that names all hosts. While clients write and read, it kills the primary in several ways and switches over. In the
// end, the database must contain each acknowledged write exactly once, and nothing else. No answer may have another
// status than 2xx or 503, a client must read what it wrote, and each instance must write again soon after the election
// of each new primary.
func TestHighAvailability(t *testing.T) {
	testkit.Rig(t)
	t.Parallel()
	events := []string{"kill the server", "kill PostgreSQL", "switch over", "kill Patroni"}[:testkit.InCI(1, 4)]
	if *testkit.Long {
		events = slices.Repeat(events, 6)
	}
	cluster := newCluster(t)
	primary := cluster.awaitHealthy(t)
	for statement := range strings.SplitSeq(strings.TrimSpace(block(t, "sql", "CREATE ROLE farm_owner")), "\n") {
		testkit.ExecURL(t, cluster.superURL(primary, "postgres"), statement)
	}
	setting := func(name string, block string) string { // of the docs, with the addresses of the test
		m := regexp.MustCompile(`(?m)^` + name + `=(.*)$`).FindStringSubmatch(block)
		if m == nil {
			t.Fatalf("docs/high-availability.md does not set %s", name)
		}
		return name + "=" + cluster.replace.Replace(m[1])
	}
	hosts, proxy := block(t, "text", "db1.example:5432,db2"), block(t, "text", "127.0.0.1:5000/farm")
	var instances []*instance
	for name, block := range map[string]string{"HAProxy": proxy, "hosts": hosts} {
		env := []string{setting("DATABASE_URL", block), setting("MIGRATE_DATABASE_URL", block)}
		instances = append(instances, &instance{name: name, env: env})
	}
	r := newRig(t, instances...)
	key := r.program.succeeds(t, "", instances[0].env, "key", "add", "--role", "operator", "--name", "load")
	r.header = http.Header{"X-Api-Key": {strings.TrimSpace(key)}}
	end := r.load(6)
	t.Cleanup(end)

	for i, event := range events {
		r.rare.Store(testkit.InCI(1, 0) == 1) // without CI_STRICT=1, clients write without a pause only around each event
		old := cluster.awaitHealthy(t)
		r.rare.Store(false)
		r.awaitAnswers(t, time.Now())
		begin := time.Now()
		cluster.end(t, old, event)
		elected := cluster.awaitPrimary(t, old)
		election := time.Now()
		if event == "kill Patroni" { // systemd starts it again; until then, two servers accept connections for writes
			cluster.startPatroni(t, old)
		}
		took := r.awaitAnswers(t, election)
		t.Logf("%d. %s of %s: %s is the primary after %v; first answers after that: %v",
			i+1, event, old.name, elected.name, election.Sub(begin).Round(10*time.Millisecond), took)
		if old.patroni.hasExited() {
			cluster.startPatroni(t, old)
		}
	}
	r.rare.Store(testkit.InCI(1, 0) == 1)
	primary = cluster.awaitHealthy(t)
	end()
	r.verify(t, cluster.superURL(primary, "farm"))
}

// cluster is three PostgreSQL with Patroni, an etcd and an HAProxy.
type cluster struct {
	dir      string
	nodes    []*clusterNode
	replace  *strings.Replacer // of addresses, ports and paths in the files and the docs
	port     string            // of PostgreSQL
	restPort string            // of Patroni
	account  *syscall.Credential
}

type clusterNode struct {
	name, address, config, data string
	patroni                     *clusterProcess
}

// newCluster starts the processes. The test's cleanup ends them.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	tools := needTools(t, "etcd", "haproxy", "patroni", "patronictl")
	c := &cluster{dir: tempDir(t)}
	attributes := bouncerAttributes(t, c.dir)
	if attributes != nil {
		c.account = attributes.Credential
	}
	// Each test process has its own addresses, which are all on the loopback interface of Linux.
	network := fmt.Sprintf("127.%d.%d.", 1+rand.N(250), rand.N(250))
	ports := freePorts(t, network+"1", 5)
	c.port, c.restPort = ports[0], ports[1]
	c.replace = strings.NewReplacer(
		"10.0.0.0/24", "127.0.0.0/8", "10.0.0.1:2379,10.0.0.2:2379,10.0.0.3:2379", network+"1:"+ports[2],
		"10.0.0.", network, "db1.example", network+"1", "db2.example", network+"2", "db3.example", network+"3",
		":5432", ":"+c.port, ":8008", ":"+c.restPort, "port 8008", "port "+c.restPort,
		"127.0.0.1:5000", "127.0.0.1:"+ports[4],
		// The ttl is the time for which a cluster has no primary after its server is killed.
		"ttl: 20", "ttl: 8", "loop_wait: 5", "loop_wait: 1", "retry_timeout: 5", "retry_timeout: 3",
		"/usr/lib/postgresql/15/bin", postgresFolder(t),
	)

	peer := "http://" + network + "1:" + ports[3]
	client := "http://" + network + "1:" + ports[2]
	c.run(t, tools[0], "--name=db1", "--data-dir="+c.dir+"/etcd", "--log-level=error",
		"--listen-client-urls="+client, "--advertise-client-urls="+client,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=db1="+peer)
	for i := range 3 {
		n := &clusterNode{name: fmt.Sprint("db", i+1), address: network + strconv.Itoa(i+1)}
		n.config, n.data = filepath.Join(c.dir, n.name+".yml"), filepath.Join(c.dir, n.name)
		b, err := os.ReadFile("deploy/patroni.yml")
		check(t, err)
		text := strings.NewReplacer("name: db1", "name: "+n.name, "10.0.0.1:5432", n.address+":"+c.port,
			"10.0.0.1:8008", n.address+":"+c.restPort, "/var/lib/postgresql/15/farm", n.data,
			"/var/lib/postgresql/patroni.pgpass", n.data+".pgpass",
			"/var/run/postgresql", c.folder(t, n.name+".run")).Replace(string(b))
		check(t, os.WriteFile(n.config, []byte(c.replace.Replace(text)), 0o644))
		c.nodes = append(c.nodes, n)
		c.startPatroni(t, n)
		t.Cleanup(func() { c.endPostgres(t, n) })
	}
	b, err := os.ReadFile("deploy/haproxy.cfg")
	check(t, err)
	config := filepath.Join(c.dir, "haproxy.cfg")
	check(t, os.WriteFile(config, []byte(c.replace.Replace(string(b))), 0o644))
	c.run(t, tools[1], "-db", "-f", config)
	return c
}

// folder creates a folder of PostgreSQL's account.
func (c *cluster) folder(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(c.dir, name)
	check(t, os.Mkdir(path, 0o700))
	if c.account != nil {
		check(t, os.Chown(path, int(c.account.Uid), int(c.account.Gid)))
	}
	return path
}

// postgresFolder returns the folder of the binaries of PostgreSQL that the tests use.
func postgresFolder(t *testing.T) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), testkit.Private().SuperURL())
	check(t, err)
	defer conn.Close(t.Context())
	var folder string
	check(t, conn.QueryRow(t.Context(), `select setting from pg_config where name = 'BINDIR'`).Scan(&folder))
	for _, name := range []string{"pg_basebackup", "pg_rewind", "pg_isready", "pg_controldata"} { // Patroni runs them
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			skipTest(t, folder+" contains no "+name)
		}
	}
	return folder
}

// clusterProcess is a process of the cluster.
type clusterProcess struct {
	*exec.Cmd
	exited chan struct{} // closed when the process has exited
}

func (p *clusterProcess) hasExited() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// kill ends the process at once.
func (p *clusterProcess) kill() {
	p.Process.Kill()
	<-p.exited
}

// run starts a process as the account of PostgreSQL. The test's cleanup ends it.
func (c *cluster) run(t *testing.T, name string, args ...string) *clusterProcess {
	t.Helper()
	// A file and not a buffer, because PostgreSQL inherits it from Patroni, and Wait waits until a buffer has all
	// output.
	log, err := os.CreateTemp(c.dir, filepath.Base(name)+"-*.log")
	check(t, err)
	defer log.Close()
	p := &clusterProcess{Cmd: exec.Command(name, args...), exited: make(chan struct{})}
	p.Dir, p.Stdout, p.Stderr = c.dir, log, log
	p.Env = append(processEnv(nil), "HOME="+c.dir, "LC_ALL=C.UTF-8")
	// The process must not survive this one. The kernel sends the signal when the thread that started it ends.
	p.SysProcAttr = &syscall.SysProcAttr{Credential: c.account, Pdeathsig: syscall.SIGTERM}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := p.Start()
		started <- err
		if err == nil {
			p.Wait()
		}
		close(p.exited)
	}()
	check(t, <-started)
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			output, _ := os.ReadFile(log.Name())
			t.Logf("output of %v: ...%s", p.Args, output[max(0, len(output)-6000):])
		}
	})
	return p
}

// startPatroni starts Patroni, which starts PostgreSQL.
func (c *cluster) startPatroni(t *testing.T, n *clusterNode) {
	t.Helper()
	n.patroni = c.run(t, "patroni", n.config)
}

// postmaster returns the process id of the node's PostgreSQL, or 0 if it does not run.
func (n *clusterNode) postmaster() int {
	b, _ := os.ReadFile(filepath.Join(n.data, "postmaster.pid"))
	line, _, _ := strings.Cut(string(b), "\n")
	pid, err := strconv.Atoi(line)
	if cwd, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)); err != nil || cwd != n.data {
		return 0
	}
	return pid
}

// endPostgres ends the node's PostgreSQL, and waits until its processes are gone.
func (c *cluster) endPostgres(t *testing.T, n *clusterNode) {
	t.Helper()
	n.patroni.kill() // it would start PostgreSQL again
	pid := n.postmaster()
	if pid != 0 {
		syscall.Kill(pid, syscall.SIGQUIT)
	}
	eventually(t, "no process works in the folder of PostgreSQL", func() bool {
		all, _ := filepath.Glob("/proc/[0-9]*/cwd")
		return !slices.ContainsFunc(all, func(path string) bool {
			cwd, _ := os.Readlink(path)
			return cwd == n.data
		})
	})
}

// end ends the role of the primary.
func (c *cluster) end(t *testing.T, n *clusterNode, event string) {
	t.Helper()
	pid := n.postmaster()
	if pid == 0 {
		t.Fatalf("PostgreSQL of the primary %s does not run", n.name)
	}
	switch event {
	case "kill Patroni":
		n.patroni.kill()
	case "kill PostgreSQL":
		check(t, syscall.Kill(pid, syscall.SIGKILL))
	case "kill the server":
		check(t, n.patroni.Process.Kill())
		check(t, syscall.Kill(pid, syscall.SIGKILL))
		<-n.patroni.exited
	case "switch over":
		script := strings.ReplaceAll(block(t, "sh", "switchover"), "/etc/patroni/config.yml", n.config)
		shell := exec.Command("bash", "-euc", script)
		if out, err := shell.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", script, err, out)
		}
	default:
		t.Fatalf("unknown event %q", event)
	}
}

// superURL is the URL of the superuser at a node.
func (c *cluster) superURL(n *clusterNode, database string) string {
	return "postgres://postgres:superuser-password@" + n.address + ":" + c.port + "/" + database
}

// isPrimary reports whether Patroni says that the node is the primary.
func (c *cluster) isPrimary(n *clusterNode) bool {
	client := http.Client{Timeout: time.Second}
	r, err := client.Get("http://" + n.address + ":" + c.restPort + "/primary")
	if err != nil {
		return false
	}
	r.Body.Close()
	return r.StatusCode == 200
}

// awaitPrimary waits until another node than old is the primary.
func (c *cluster) awaitPrimary(t *testing.T, old *clusterNode) (elected *clusterNode) {
	t.Helper()
	eventually(t, "a new primary is elected", func() bool {
		for _, n := range c.nodes {
			if n != old && c.isPrimary(n) {
				elected = n
			}
		}
		return elected != nil
	})
	return elected
}

// awaitHealthy waits until all nodes replicate and Patroni may promote one of them, and returns the primary.
func (c *cluster) awaitHealthy(t *testing.T) (primary *clusterNode) {
	t.Helper()
	eventually(t, "the cluster is healthy", func() bool {
		primary = nil
		for _, n := range c.nodes {
			if c.isPrimary(n) {
				primary = n
			}
		}
		if primary == nil || !c.hasSyncStandby(primary) {
			return false
		}
		conn, err := pgx.Connect(context.Background(), c.superURL(primary, "postgres"))
		if err != nil {
			return false
		}
		defer conn.Close(context.Background())
		var streaming int
		err = conn.QueryRow(context.Background(), `select count(*) from pg_stat_replication
			where state = 'streaming' and application_name like 'db_'`).Scan(&streaming)
		return err == nil && streaming == len(c.nodes)-1
	})
	return primary
}

// hasSyncStandby reports whether Patroni has recorded a synchronous standby. It promotes no other one, and it records
// the standby later than PostgreSQL begins to wait for it.
func (c *cluster) hasSyncStandby(n *clusterNode) bool {
	client := http.Client{Timeout: time.Second}
	r, err := client.Get("http://" + n.address + ":" + c.restPort + "/cluster")
	if err != nil {
		return false
	}
	defer r.Body.Close()
	var state struct{ Members []struct{ Role string } }
	return json.NewDecoder(r.Body).Decode(&state) == nil &&
		slices.Contains(state.Members, struct{ Role string }{"sync_standby"})
}
