package testcluster

import "syscall"

// errConnReset is what a read from a reset TCP connection fails with.
const errConnReset = syscall.WSAECONNRESET
