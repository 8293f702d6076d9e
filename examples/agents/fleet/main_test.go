package main

import (
	"bytes"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/postgres/postgrestest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func compiled(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "fleet.exe")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput()
	require.NoError(t, err, string(out))
	return program
}

// stores are where the runs may be.
func stores(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{"sqlite": filepath.Join(t.TempDir(), "runs.db")}
	server, err := postgrestest.Start()
	if errors.Is(err, postgrestest.ErrNoPostgreSQL) {
		t.Log(err)
		return all
	}
	require.NoError(t, err)
	t.Cleanup(server.Stop)
	all["postgres"] = server.DSN()
	return all
}

// Whoever is killed, all runs complete, and no step is recorded twice.
func TestTheOthersTakeOver(t *testing.T) {
	program := compiled(t)
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			victim := exec.CommandContext(t.Context(), program, "-role", "worker", "-name", "victim", "-store", store, "-ttl", "2s", "-latency", "500ms")
			require.NoError(t, victim.Start())
			go func() {
				awaitHeld(t, store, "victim")
				_ = victim.Process.Kill()
			}()
			var out bytes.Buffer
			lead := exec.CommandContext(t.Context(), program, "-store", store, "-ttl", "2s", "-workers", "2", "-runs", "60", "-latency", "500ms")
			lead.Stdout, lead.Stderr = &out, &out
			require.NoError(t, lead.Run(), &out)
			_ = victim.Wait() // it was killed
			assert.Contains(t, out.String(), "60 runs have completed")
			assert.Contains(t, out.String(), "360 steps are recorded, 0 of them twice")
			assert.NotContains(t, out.String(), "; 0 times a run lost its worker")
		})
	}
}

// awaitHeld waits until a worker has a run under way.
func awaitHeld(t *testing.T, name, worker string) {
	t.Helper()
	store, err := open(t.Context(), name)
	if !assert.NoError(t, err) {
		return
	}
	defer store.Close()
	for {
		page, err := store.List(t.Context(), journal.Query{Status: []journal.Status{journal.Running}})
		held := slices.ContainsFunc(page.Runs, func(r journal.Run) bool { return strings.HasPrefix(r.Owner, worker+"/") })
		if held || err != nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func TestWrongFlagsSaySo(t *testing.T) {
	program := compiled(t)
	for args, want := range map[string]string{
		"-role boss":   `-role "boss": use`,
		"-role worker": "-store is empty",
		"-role worker -ttl -1s -store " + filepath.Join(t.TempDir(), "x"): "LockTTL is negative",
	} {
		out, err := exec.CommandContext(t.Context(), program, strings.Fields(args)...).CombinedOutput()
		require.Error(t, err)
		assert.Contains(t, string(out), want)
	}
}
