//go:build unix

package postgrestest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// asServer makes a command run as a user that PostgreSQL runs as: not as root. It is in a process group of its own, so that an
// interrupt of the tests is not one of the server.
func asServer(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if uid, gid, ok := serverUser(); ok {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uid, Gid: gid}
	}
}

// ownFolder gives a folder to that user.
func ownFolder(path string) error {
	uid, gid, ok := serverUser()
	if !ok {
		return nil
	}
	return os.Chown(path, int(uid), int(gid))
}

// serverUser is the user that root becomes.
func serverUser() (uid, gid uint32, ok bool) {
	if os.Geteuid() != 0 {
		return 0, 0, false
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errU := strconv.ParseUint(u.Uid, 10, 32)
		gid, errG := strconv.ParseUint(u.Gid, 10, 32)
		if errU == nil && errG == nil && uid != 0 {
			return uint32(uid), uint32(gid), true
		}
	}
	return 65534, 65534, true
}

// killAll kills a process and those it has started. It is stopped first, or it could start one that is not seen.
func killAll(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	started := children(pid)
	err := syscall.Kill(pid, syscall.SIGKILL)
	for _, child := range started {
		_ = syscall.Kill(child, syscall.SIGKILL) // which may have ended
	}
	return err
}

// children are the processes that another one has started, where the system tells.
func children(pid int) []int {
	var all []int
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		text, err := os.ReadFile(path) //nolint:gosec // of the system
		if err != nil {
			continue // it has ended
		}
		var own, parent int
		var state string
		after := string(text[bytes.LastIndexByte(text, ')')+1:]) // its name may hold anything
		if _, err := fmt.Sscan(after, &state, &parent); err != nil || parent != pid {
			continue
		}
		if _, err := fmt.Sscan(string(text), &own); err == nil {
			all = append(all, own)
		}
	}
	return all
}
