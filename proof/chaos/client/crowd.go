package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/proof/chaos/protocol"
	"github.com/seed6c881748/redlock/redlock"
)

// callers is how many make an overload: far more than the nodes can answer in time.
const callers = 300

// Crowd has hundreds of callers ask the nodes for locks of their own, and tells nobody, until stdin ends.
func Crowd(stdin io.Reader, stdout io.Writer) error {
	lines := bufio.NewScanner(stdin)
	var cfg protocol.Config
	if !lines.Scan() {
		return errors.New("client: no configuration")
	}
	if err := json.Unmarshal(lines.Bytes(), &cfg); err != nil {
		return fmt.Errorf("client: configuration: %w", err)
	}
	c := &client{cfg: cfg}
	lib, err := c.open(nil, redlock.WithPrefix("crowd:"))
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for ctx.Err() == nil {
				if lock, failed := lib.TryLock(ctx, []string{fmt.Sprint(i)}, time.Duration(cfg.TTL)); failed == nil {
					_ = lock.Unlock(ctx)
				}
			}
		})
	}
	if _, err = fmt.Fprintln(stdout, protocol.Ready); err == nil {
		for lines.Scan() {
		}
	}
	stop()
	all.Wait()
	return errors.Join(err, lib.Close(context.Background()))
}
