module github.com/seed6c881748/redlock/cmd/redlock

go 1.25.0

require (
	github.com/gomodule/redigo v1.9.3
	github.com/seed6c881748/redlock v0.0.0
	github.com/spf13/cobra v1.10.2
	github.com/spf13/pflag v1.0.10
	golang.org/x/sys v0.45.0
)

require (
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	golang.org/x/sync v0.22.0 // indirect
)

replace github.com/seed6c881748/redlock => ../../
