// Command cmd judges the histories of runs again.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/seed6c881748/redlock/proof/history"
	"github.com/seed6c881748/redlock/proof/judge"
)

func main() {
	asJSON := flag.Bool("json", false, "print verdicts as JSON")
	without := flag.String("without", "", "leave out these rules, whose names are separated by commas")
	bound := flag.Duration("time", 30*time.Second, "check each model for at most so long")
	draw := flag.String("draw", "", "write Porcupine's pictures of what fits no order into this folder")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: go run ./judge/cmd [flags] HISTORY.jsonl ...\nThe exit code is 1 if a promise was broken.")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	opts := []judge.Option{judge.ModelTime(*bound)}
	if *without != "" {
		opts = append(opts, judge.Without(strings.Split(*without, ",")...))
	}
	code := 0
	for _, name := range flag.Args() {
		v, err := judgeFile(name, opts)
		if err == nil {
			err = show(v, *asJSON)
		}
		if err == nil && *draw != "" {
			err = drawAll(v, *draw, strings.TrimSuffix(filepath.Base(name), ".jsonl"))
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		if !v.OK() {
			code = 1
		}
	}
	os.Exit(code)
}

func judgeFile(name string, opts []judge.Option) (judge.Verdict, error) {
	f, err := os.Open(name)
	if err != nil {
		return judge.Verdict{}, err
	}
	defer f.Close() //nolint:errcheck // It was only read.
	events, err := history.Parse(f)
	if err != nil {
		return judge.Verdict{}, fmt.Errorf("%s: %w", name, err)
	}
	return judge.Judge(events, opts...), nil
}

func show(v judge.Verdict, asJSON bool) error {
	if !asJSON {
		_, err := fmt.Print(v)
		return err
	}
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", "  ")
	return out.Encode(v)
}

// drawAll writes one page for each piece of the history that fits no order.
func drawAll(v judge.Verdict, dir, name string) error {
	for i, d := range v.Drawings() {
		f, err := os.Create(filepath.Join(dir, fmt.Sprintf("%s-%s-%d.html", name, strings.ReplaceAll(d.Model, " ", "-"), i+1)))
		if err != nil {
			return err
		}
		if err = d.Write(f); err == nil {
			err = f.Close()
		}
		if err != nil {
			return err
		}
	}
	return nil
}
