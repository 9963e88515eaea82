package fencetest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// DocumentedSQL returns the SQL of docs/fencing.md: the statements of its blocks of SQL, and those
// in its Go, in their order.
func DocumentedSQL(t *testing.T) (blocks, inGo []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash("../../../docs/fencing.md"))
	require.NoError(t, err)
	for _, block := range regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		for statement := range strings.SplitSeq(strings.TrimSpace(block[1]), ";\n") {
			blocks = append(blocks, strings.TrimSuffix(statement, ";"))
		}
	}
	for _, literal := range regexp.MustCompile("Context\\(ctx, `([^`]*)`").FindAllStringSubmatch(string(text), -1) {
		inGo = append(inGo, literal[1])
	}
	require.Len(t, blocks, 4, "the table, its row, two statements for MariaDB")
	require.Len(t, inGo, 2, "a read and a write")
	return blocks, inGo
}
