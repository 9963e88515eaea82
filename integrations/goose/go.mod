module github.com/seed6c881748/redlock/integrations/goose

go 1.25.7

replace github.com/seed6c881748/redlock => ../..

require (
	github.com/go-sql-driver/mysql v1.10.1
	github.com/lib/pq v1.12.3
	github.com/pressly/goose/v3 v3.27.3
	github.com/seed6c881748/redlock v0.0.0
	github.com/stretchr/testify v1.12.1
)

require (
	filippo.io/edwards25519 v1.2.0 // indirect
	github.com/alicebob/miniredis/v2 v2.40.0 // indirect
	github.com/gomodule/redigo v1.9.3 // indirect
	github.com/mfridman/interpolate v0.0.2 // indirect
	github.com/sethvargo/go-retry v0.4.0 // indirect
	github.com/yuin/gopher-lua v1.1.1 // indirect
	go.uber.org/multierr v1.11.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sync v0.22.0 // indirect
)
