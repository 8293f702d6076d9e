//go:build !unix

package postgres_test

import "os/exec"

func asServer(*exec.Cmd) {}

func ownFolder(string) error { return nil }
