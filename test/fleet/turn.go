package main

import "github.com/seed6c881748/redlock/redlock"

func init() { withTurn = redlock.WithTurn }
