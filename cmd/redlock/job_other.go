//go:build !unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

const guardArg, gateArg = "__guard", "__gate"

func guardMain([]string) int { return exitUsage }

func gateMain([]string) int { return exitUsage }

// A job is a command that runs under a lock. Where there are no process groups and no SIGTERM,
// only the command itself is killed, when the lock is about to end.
type job struct{ task }

func (j *job) run(ctx context.Context) (ending, error) {
	kept := j.lock.KeepAlive(context.WithoutCancel(ctx))
	cmd := exec.Command(j.path, j.args[1:]...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = j.env, os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return ending{}, fmt.Errorf("%w: %s: %w", errNotStarted, j.args[0], err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	end := ending{}
	for {
		select {
		case <-exited:
			end.code = cmd.ProcessState.ExitCode()
			return end, nil
		case <-j.signals: // The console has sent it to the command, too.
		case <-time.After(50 * time.Millisecond):
			j.extender.look(kept, time.Now())
			if kept.Err() == nil && time.Until(j.lock.Until()) > j.margin {
				continue
			}
			end.killed, end.lost = true, errors.New("it could not be extended in time")
			_ = cmd.Process.Kill()
		}
	}
}

// A status is how the program ends.
type status struct{ code int }

func (s status) exit() { os.Exit(s.code) }

func (e ending) status() status { return status{code: e.code} }

func statusOf(os.Signal) status { return status{code: exitSignal + int(syscall.SIGINT)} }

func watchSignals() chan os.Signal {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, os.Interrupt)
	return signals
}

func endsWait(os.Signal) bool { return true }
