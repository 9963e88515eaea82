#!/bin/sh
# Writes docs/generated/footprint.md: what a program gets with the library, with redsync, and with neither. Each is built
# in a module outside of the repository, which gets the committed library from a folder that serves as a module proxy.
# The figures are compared with nothing: each version of Go has others.
set -eu
cd "$(dirname "$0")/.."

module=github.com/seed6c881748/redlock
version=v0.1.0
publish=test/repository/publish
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT

(cd $publish && go run . -repo ../../.. -commit HEAD -version $version -proxy "$work/proxy")
GOPROXY="file://$work/proxy,file://$(go env GOMODCACHE)/cache/download,$(go env GOPROXY)"
GOFLAGS="$(go env GOFLAGS) -modcacherw -trimpath"
export GOPROXY GOFLAGS GONOSUMDB="$module,$module/*" GOWORK=off GOMODCACHE="$work/cache"

# measure NAME PACKAGE… adds a row for the program in $work/main.go, which takes these packages.
measure() {
	name=$1
	shift
	dir=$work/$name
	mkdir "$dir"
	mv "$work/main.go" "$dir"
	cd "$dir"
	printf 'module example.com/consumer\n\ngo 1.25.0\n' >go.mod
	go get "$@" 2>/dev/null
	go mod tidy 2>/dev/null
	go build -o program .
	go build -ldflags='-s -w' -o stripped .
	go list -m all >"$work/$name.modules"
	{
		go version -m program | grep -c '^	dep' || true
		wc -l <"$work/$name.modules"
		wc -c <program
		wc -c <stripped
	} | paste -s - | awk -v name="$name" \
		'{ printf "| %s | %d | %d | %.1f MB | %.1f MB |\n", name, $1, $2 - 1, $3 / 1e6, $4 / 1e6 }' >>"$work/rows"
	cd - >/dev/null
}

git show HEAD:README.md | awk '/^```/ { on = $0 == "```go" && !seen++; next } on' >"$work/main.go"
measure redlock $module
cp $publish/testdata/redsync/main.go "$work"
measure redsync github.com/go-redsync/redsync/v4@v4.17.0 github.com/gomodule/redigo@v1.9.3
printf 'package main\n\nfunc main() { println() }\n' >"$work/main.go"
measure neither $module

go=$(go env GOVERSION)
cat >docs/generated/footprint.md <<PAGE
# Footprint

What a program gets with the library. It is measured outside of the repository: a module gets the committed library
from a module proxy, as $version, and builds the README's first program. (Nothing is released
yet.) The program with redsync 4.17.0 does the same with redigo:
it locks on three nodes, works, and unlocks. Written by \`make footprint\`, with Go ${go#go} on $(go env GOOS)/$(go env GOARCH).

"Linked" are the modules in the binary, \`go version -m\`. "In the graph" are all that \`go list -m all\` names, which
includes what only the tests of a dependency need. Both are built with \`-trimpath\`, "stripped" also with
\`-ldflags="-s -w"\`.

| | modules linked | in the graph | size | stripped |
|---|---:|---:|---:|---:|
$(cat "$work/rows")

\`go list -m all\` with redlock:

\`\`\`
$(cat "$work/redlock.modules")
\`\`\`

and with redsync:

\`\`\`
$(cat "$work/redsync.modules")
\`\`\`
PAGE
