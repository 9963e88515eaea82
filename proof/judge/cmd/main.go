// Command cmd judges the histories of runs again.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/seed6c881748/redlock/proof/history"
	"github.com/seed6c881748/redlock/proof/judge"
)

func main() {
	asJSON := flag.Bool("json", false, "print verdicts as JSON")
	without := flag.String("without", "", "leave out these rules, whose names are separated by commas")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: go run ./judge/cmd [flags] HISTORY.jsonl ...\nThe exit code is 1 if a promise was broken.")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	var left []string
	if *without != "" {
		left = strings.Split(*without, ",")
	}
	code := 0
	for _, name := range flag.Args() {
		v, err := judgeFile(name, left)
		if err == nil {
			err = show(v, *asJSON)
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

func judgeFile(name string, without []string) (judge.Verdict, error) {
	f, err := os.Open(name)
	if err != nil {
		return judge.Verdict{}, err
	}
	defer f.Close() //nolint:errcheck // It was only read.
	events, err := history.Parse(f)
	if err != nil {
		return judge.Verdict{}, fmt.Errorf("%s: %w", name, err)
	}
	return judge.Judge(events, without...), nil
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
