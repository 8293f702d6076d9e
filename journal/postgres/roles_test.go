package postgres_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// documented are the grants that the package comment lists.
func documented(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	grants := regexp.MustCompile(`(?m)^//\t(GRANT .*;)$`).FindAllStringSubmatch(string(text), -1)
	require.Len(t, grants, 8)
	list := make([]string, 0, len(grants))
	for _, g := range grants {
		list = append(list, g[1])
	}
	return list
}
