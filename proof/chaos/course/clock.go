package course

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/seed6c881748/redlock/proof/chaos/plan"
)

//go:embed preload/clock.c
var clockSource []byte

// HasClocks reports whether the clocks of servers can be stepped here, or why not.
func HasClocks() error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("clocks of servers are stepped on Linux only")
	}
	if _, err := exec.LookPath("cc"); err != nil {
		return fmt.Errorf("clocks of servers cannot be stepped without a C compiler: %w", err)
	}
	if dir := os.TempDir(); strings.ContainsAny(dir, " :") {
		return fmt.Errorf("clocks of servers cannot be stepped from %q: LD_PRELOAD takes no path with a space or a colon", dir)
	}
	return nil
}

// buildClock compiles what steps clocks, if the plan does so, and returns its path.
func (r *run) buildClock() (string, error) {
	if !r.Plan.Has(plan.Clock) {
		return "", nil
	}
	source, library := filepath.Join(r.dir, "clock.c"), filepath.Join(r.dir, "clock.so")
	if err := os.WriteFile(source, clockSource, 0o600); err != nil {
		return "", err
	}
	if out, err := exec.Command("cc", "-O2", "-shared", "-fPIC", "-o", library, source).CombinedOutput(); err != nil {
		return "", fmt.Errorf("course: cc: %w: %s", err, out)
	}
	return library, nil
}

// makeClock makes the file of a clock that is right.
func makeClock(file string) error { return os.WriteFile(file, make([]byte, 8), 0o600) }

// step sets the node's clock forward by d, or back if that is negative.
func (n *node) step(d time.Duration) error {
	n.offset += d
	f, err := os.OpenFile(n.clock, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(binary.NativeEndian.AppendUint64(nil, uint64(n.offset)))
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
