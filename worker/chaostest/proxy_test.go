package chaostest

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// proxy stands between the workers and the database, and can be told to cut or delay what passes.
type proxy struct {
	listener net.Listener
	socket   string

	mu    sync.Mutex
	conns map[net.Conn]struct{}
	delay time.Duration
	down  bool
}

func newProxy(t *testing.T, socket string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{listener: l, socket: socket, conns: map[net.Conn]struct{}{}}
	var all sync.WaitGroup
	all.Go(func() { p.serve(&all) })
	t.Cleanup(func() {
		l.Close()
		p.cut()
		all.Wait()
	})
	return p
}

func (p *proxy) port() int { return p.listener.Addr().(*net.TCPAddr).Port }

func (p *proxy) serve(all *sync.WaitGroup) {
	for {
		in, err := p.listener.Accept()
		if err != nil {
			return
		}
		all.Go(func() { p.pass(in, all) })
	}
}

func (p *proxy) pass(in net.Conn, all *sync.WaitGroup) {
	defer in.Close()
	out, err := net.Dial("unix", p.socket)
	if err != nil {
		return
	}
	defer out.Close()
	if !p.add(in, out) {
		return
	}
	defer p.remove(in, out)
	all.Go(func() { p.copy(out, in) })
	p.copy(in, out)
}

func (p *proxy) add(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down {
		return false
	}
	for _, c := range conns {
		p.conns[c] = struct{}{}
	}
	return true
}

func (p *proxy) remove(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		delete(p.conns, c)
	}
}

// copy passes on what comes, late if it is to be.
func (p *proxy) copy(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		p.mu.Lock()
		d := p.delay
		p.mu.Unlock()
		time.Sleep(d)
		if _, werr := to.Write(buf[:n]); err != nil || werr != nil {
			return
		}
	}
}

// cut ends all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

func (p *proxy) set(down bool, delay time.Duration) {
	p.mu.Lock()
	p.down, p.delay = down, delay
	p.mu.Unlock()
	if down {
		p.cut()
	}
}
