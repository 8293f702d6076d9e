//go:build !unix

package postgrestest

import (
	"os"
	"os/exec"
)

func asServer(*exec.Cmd) {}

func ownFolder(string) error { return nil }

func killAll(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Kill()
}
