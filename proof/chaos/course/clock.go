package course

import (
	"cmp"
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
	"github.com/seed6c881748/redlock/proof/history"
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

// buildClock compiles what changes clocks, if the plan does so, and returns its path.
func (r *run) buildClock() (string, error) {
	if !r.Plan.Has(plan.Clock) && !r.Plan.Has(plan.Rate) {
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

// What a file of a clock holds, each of 8 bytes: the constants say where.
const (
	clockOffset = 8 * iota
	clockRate
	clockStart
	clockSlew
	clockSize
)

// makeClock makes the file of a clock that is right.
func makeClock(file string) error { return os.WriteFile(file, make([]byte, clockSize), 0o600) }

// step sets the node's clock forward by d, or back if that is negative.
func (n *node) step(d time.Duration) error {
	n.offset += d
	return n.setClock(clockOffset, int64(n.offset))
}

// setRate has the node's clock gain so much in a second from now on, and lose it later.
func (n *node) setRate(gains time.Duration) error {
	return cmp.Or(n.setClock(clockSlew, int64(plan.Slew)), n.setClock(clockStart, history.Monotonic()), n.setClock(clockRate, int64(gains)))
}

func (n *node) setClock(at, value int64) error {
	f, err := os.OpenFile(n.clock, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(value)), at)
	return cmp.Or(err, f.Close())
}
