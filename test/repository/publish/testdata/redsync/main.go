package main

import (
	"fmt"
	"log"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/redigo"
	"github.com/gomodule/redigo/redis"
)

func main() {
	var pools []redsyncredis.Pool
	for _, addr := range []string{"10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.3:6379"} {
		pools = append(pools, redigo.NewPool(&redis.Pool{
			MaxIdle: 3,
			Dial:    func() (redis.Conn, error) { return redis.Dial("tcp", addr) },
		}))
	}
	m := redsync.New(pools...).NewMutex("account:42", redsync.WithExpiry(10*time.Second))
	if err := m.Lock(); err != nil {
		log.Fatal(err)
	}
	fmt.Println("held for", time.Until(m.Until()).Round(time.Second))
	if _, err := m.Unlock(); err != nil {
		log.Print(err)
	}
}
