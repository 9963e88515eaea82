module github.com/seed6c881748/redlock/test/repository/publish

go 1.25.0

require (
	github.com/seed6c881748/redlock v0.0.0
	github.com/stretchr/testify v1.12.1
	go.yaml.in/yaml/v3 v3.0.5
	golang.org/x/mod v0.35.0
)

require (
	github.com/alicebob/miniredis/v2 v2.40.0 // indirect
	github.com/gomodule/redigo v1.9.3 // indirect
	github.com/yuin/gopher-lua v1.1.1 // indirect
)

replace github.com/seed6c881748/redlock => ../../../
