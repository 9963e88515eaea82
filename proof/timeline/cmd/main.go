// Command cmd judges a history and draws it:
//
//	go run ./timeline/cmd history.jsonl >page.html
package main

import (
	"bufio"
	"log"
	"os"

	"github.com/seed6c881748/redlock/proof/history"
	"github.com/seed6c881748/redlock/proof/judge"
	"github.com/seed6c881748/redlock/proof/timeline"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: go run ./timeline/cmd HISTORY >PAGE")
	}
	if err := draw(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func draw(name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // It was only read.
	events, err := history.Parse(file)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(os.Stdout)
	if err := timeline.Write(out, events, judge.Judge(events)); err != nil {
		return err
	}
	return out.Flush()
}
