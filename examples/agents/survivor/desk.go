package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/providers/scripted"
)

// mark stands in what comes of a call, so that it can be found where it is kept.
func mark(call string) string { return "[" + call + "]" }

// desk serves the model, and counts its calls.
type desk struct {
	address string
	close   func()
	model   http.Handler
	came    chan struct{} // gets a value for each call, if somebody waits for one

	mu    sync.Mutex
	calls []*call // in the order in which they came first
}

// call is all there is to know of the calls about one thing.
type call struct {
	name string
	by   []int // the processes that have made it
	kept int   // the process that has left its outcome in the file; 0: none has
}

// openDesk serves a scripted model that takes its time.
func openDesk() (*desk, error) {
	const takes = 15 * time.Millisecond
	about := func(r providers.Request) string { return r.Messages[0].Content }
	script := scripted.New(
		scripted.On(scripted.When("about figures", func(r providers.Request) bool { return about(r) == "figures" })).
			Fail(scripted.Status(http.StatusBadRequest)).After(takes),
		scripted.On().ReplyFunc(func(r providers.Request) string { return "the answer to " + mark(about(r)) }).After(takes),
	)
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it does not block
	if err != nil {
		return nil, err
	}
	d := &desk{address: "http://" + listener.Addr().String(), model: script.Handler(), came: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /{process}/chat/completions", d.serve)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		server.Serve(listener) //nolint:errcheck // it returns when the server is closed
	}()
	d.close = func() {
		server.Close() //nolint:errcheck // nothing is left to lose
		<-done
	}
	return d, nil
}

// addressFor is where a process finds the model.
func (d *desk) addressFor(process int) string { return fmt.Sprintf("%s/%d", d.address, process) }

func (d *desk) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	process, perr := strconv.Atoi(r.PathValue("process"))
	var asked providers.Request
	if err := cmp.Or(err, perr, json.Unmarshal(body, &asked)); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest) // most likely nobody reads it: the process died while it asked
		return
	}
	c := d.call(asked.Messages[0].Content)
	d.mu.Lock()
	c.by = append(c.by, process)
	d.mu.Unlock()
	select {
	case d.came <- struct{}{}:
	default:
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	d.model.ServeHTTP(w, r)
}

func (d *desk) call(name string) *call {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.calls {
		if c.name == name {
			return c
		}
	}
	c := &call{name: name}
	d.calls = append(d.calls, c)
	return c
}

// look notes which outcomes a process has left, and reports how many there are now, and which calls of the process have none.
func (d *desk) look(process int, outcomes [][]byte) (kept int, lost []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.calls {
		is := func(outcome []byte) bool { return bytes.Contains(outcome, []byte(mark(c.name))) }
		if c.kept == 0 && slices.ContainsFunc(outcomes, is) {
			c.kept = process
		}
		switch {
		case c.kept != 0:
			kept++
		case slices.Contains(c.by, process):
			lost = append(lost, c.name)
		}
	}
	return kept, lost
}

// repeated reports whether a call was made again by a process that could find its outcome.
func (c *call) repeated() bool { return c.kept != 0 && slices.Max(c.by) > c.kept }

var errRepeated = errors.New("calls were repeated whose outcome had been kept")

// verdict prints how often each call was made. It is an error if one was repeated without need.
func (d *desk) verdict() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	rows := &strings.Builder{}
	fmt.Fprint(rows, "\ncall\tmade\tin flight at a kill\n")
	once, again, repeated := 0, 0, 0
	for _, c := range d.calls {
		inFlight := len(c.by) - 1
		note := ""
		switch {
		case c.repeated():
			repeated++
			note = "\tREPEATED"
		case c.kept == 0:
			inFlight++
			note = "\toutcome unknown, not made again"
		}
		if inFlight == 0 {
			once++
		}
		again += inFlight
		fmt.Fprintf(rows, "%s\t%d\t%d%s\n", c.name, len(c.by), inFlight, note)
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0) //nolint:mnd // a gap of two spaces
	_, err := io.WriteString(table, rows.String())
	if err := cmp.Or(err, table.Flush()); err != nil {
		return err
	}
	fmt.Printf("\n%d calls: %d made once; the others were in flight at a kill, %d times in all; %d repeated although kept\n",
		len(d.calls), once, again, repeated)
	if repeated > 0 {
		return errRepeated
	}
	return nil
}
