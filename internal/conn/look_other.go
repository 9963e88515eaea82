//go:build !unix || aix

package conn

import "syscall"

const canLook = false

type look struct{ raw syscall.RawConn }

func (*look) look() error { return nil }
