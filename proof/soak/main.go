// Command soak keeps a client of redlock busy for hours over servers that fail now and then, and shows that nothing
// grows: memory, goroutines and connections of the client, keys, memory and connections of the servers.
//
//	go run ./soak -time 2h -out DIR
//
// It writes DIR/soak.json and a plot for each figure, and exits with the status 1 if one of them has grown.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"
)

// A report is what a run leaves.
type report struct {
	Started  time.Time     `json:"started"`
	Time     time.Duration `json:"time"`
	Seed     uint64        `json:"seed"`
	Locks    int64         `json:"locks"`
	Faults   int           `json:"faults"`
	Samples  []sample      `json:"samples"`
	Verdicts []verdict     `json:"verdicts"`
	Flat     bool          `json:"flat"`
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "client" {
		exit(serve(os.Stdin, os.Stdout))
	}
	length := flag.Duration("time", 5*time.Minute, "how long to run; the first fifth is for warming up")
	every := flag.Duration("every", 0, "between two samples (default: a hundredth of the time)")
	out := flag.String("out", filepath.Join("..", "build", "soak"), "the folder for the report and the plots")
	seed := flag.Uint64("seed", 1, "of the faults")
	flag.Parse()
	if *length < time.Second || *every < 0 || flag.NArg() > 0 {
		exit(fmt.Errorf("-time %v -every %v %v: a second at least, no negative distance, no arguments", *length, *every, flag.Args()))
	}
	if *every == 0 {
		*every = max(*length/100, 50*time.Millisecond)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r, err := soak(ctx, *length, *every, *seed)
	if err == nil {
		err = write(*out, r)
	}
	if err != nil {
		exit(err)
	}
	fmt.Printf("%d locks in %v, %d faults\n", r.Locks, r.Time, r.Faults)
	for _, v := range r.Verdicts {
		fmt.Println(v)
	}
	fmt.Println("plots and figures:", *out)
	if !r.Flat {
		exit(fmt.Errorf("something has grown"))
	}
}

// write puts the report and its plots into a folder.
func write(folder string, r report) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	if err = os.WriteFile(filepath.Join(folder, "soak.json"), text, 0o644); err != nil {
		return err
	}
	return draw(folder, r.Samples)
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
	os.Exit(0)
}
