#!/bin/sh
# Runs the tests that start real servers, and those with other clients (compat/), on each of several servers:
#
#   sh scripts/matrix.sh [-short] [SERVER...]
#
# Without servers it takes the system's own and those of scripts/servers.sh. With -short the tests
# are small and all servers are tried at the same time: nearly all of these tests only wait. The
# system's own is left out then, as that of all other tests.
set -eu
cd "$(dirname "$0")/.."

go=${GO:-go}
short=
if [ "${1:-}" = -short ]; then
	short=-test.short
	shift
fi
if [ $# = 0 ]; then
	own=
	[ -n "$short" ] || own=$(command -v redis-server || command -v valkey-server || true)
	newer=$(sh scripts/servers.sh)
	IFS='
' # A path may have spaces.
	# shellcheck disable=SC2086 # words
	set -- $own $newer
	unset IFS
fi
[ $# -gt 0 ] || exit 0 # scripts/servers.sh has said why.

build=$PWD/build/matrix
mkdir -p "$build"
"$go" test -c -vet=off -o "$build/servers.test" ./test/servers
"$go" test -c -vet=off -o "$build/redlock.test" ./redlock
"$go" test -c -vet=off -o "$build/redlockcheck.test" ./redlock/redlockcheck
"$go" test -c -vet=off -o "$build/testcluster.test" ./internal/testcluster
(cd compat && "$go" test -c -vet=off -o "$build/compat.test" .)

try() { # the server $1, with its results in the file $2
	export REDIS_SERVER="$1"
	run="-test.count=1 -test.timeout=30m $short"
	status=0
	# shellcheck disable=SC2086 # words
	{
		(cd test/servers && "$build/servers.test" $run -test.parallel=4) || status=1
		(cd redlock && "$build/redlock.test" $run -test.run=OnAServer) || status=1
		(cd redlock/redlockcheck && "$build/redlockcheck.test" $run -test.parallel=4) || status=1
		(cd internal/testcluster && "$build/testcluster.test" $run -test.run=Server) || status=1
		(cd compat && "$build/compat.test" $run) || status=1
	} >"$2" 2>&1
	return $status
}

failed=
finish() { # of the server $1: its status $2, its results in the file $3
	if [ "$2" = 0 ]; then
		echo "ok      $("$1" --version)"
	else
		cat "$3"
		echo "FAILED  $("$1" --version)"
		failed=1
	fi
}

number=0
tries=
for server in "$@"; do
	number=$((number + 1))
	log=$build/$number.log
	if [ -n "$short" ]; then
		try "$server" "$log" &
		tries="$tries $!"
	else
		status=0
		try "$server" "$log" || status=1
		finish "$server" $status "$log"
	fi
done
number=0
for pid in $tries; do
	number=$((number + 1))
	status=0
	wait "$pid" || status=1
	finish "$1" $status "$build/$number.log"
	shift
done
[ -z "$failed" ]
