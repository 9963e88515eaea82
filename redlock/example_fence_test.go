package redlock_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/seed6c881748/redlock/redlock"
)

// Each lock has a larger number than those before. The resource refuses smaller ones.
func ExampleWithFencing() {
	first := locked(r, "file:1", redlock.WithFencing())
	_ = first.Unlock(ctx)

	second := locked(other, "file:1", redlock.WithFencing())
	defer second.Unlock(ctx)
	fmt.Println(second.Fence() > first.Fence())
	// Output: true
}

// Each write takes the number along, and is not done if a later holder has written:
//
//	UPDATE accounts SET balance = $1, fence = $2 WHERE id = $3 AND fence <= $2
func ExampleLock_Fence() {
	lock := locked(r, "account:10", redlock.WithFencing())
	defer lock.Unlock(ctx)

	fmt.Println(lock.Fence() > 0) // For $2.
	// Output: true
}

// Nodes remember the numbers for longer than any holder may be suspended.
func ExampleWithFenceLife() {
	r := cluster.NewRedlock(redlock.WithFencing(), redlock.WithFenceLife(365*24*time.Hour))
	lock := locked(r, "file:2")
	defer lock.Unlock(ctx)
	fmt.Println(lock.Fence() > 0)
	// Output: true
}

// A resource in this process: holders that come too late are kept away.
func ExampleGuard_Do() {
	var file redlock.Guard
	write := func(fence int64, text string) error {
		return file.Do(fence, func() error {
			fmt.Println("written:", text)
			return nil
		})
	}
	fmt.Println(write(33, "by the first holder"))
	fmt.Println(write(34, "by the second one"))
	fmt.Println(errors.Is(write(33, "by the first, which was suspended"), redlock.ErrFenced))
	// Output:
	// written: by the first holder
	// <nil>
	// written: by the second one
	// <nil>
	// true
}

// A guard that goes on where that of an earlier process ended.
func ExampleNewGuard() {
	file := redlock.NewGuard(34) // As stored with the file.
	err := file.Do(33, func() error { panic("not called") })
	fmt.Println(errors.Is(err, redlock.ErrFenced))
	// Output: true
}

// What to store with the resource, for NewGuard.
func ExampleGuard_Seen() {
	var file redlock.Guard
	_ = file.Do(33, func() error { return nil })
	_ = file.Do(34, func() error { return nil })
	fmt.Println(file.Seen())
	// Output: 34
}
