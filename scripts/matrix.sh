#!/bin/sh
# Runs the tests that start real servers, and those with other clients (compat/), on each of several servers:
#
#   sh scripts/matrix.sh [-short] [SERVER...]
#
# Without servers it takes the system's own and those of scripts/servers.sh. With -short the tests are small and CORES
# servers are tried at a time: nearly all of these tests only wait. Of the servers only the newest are taken then; the
# system's own is that of all other tests.
set -eu
cd "$(dirname "$0")/.."

go=${GO:-go}
build=$PWD/build/matrix

if [ "${1:-}" = -on ]; then # the server $2, with the binaries that are there; all is printed at once, as others run beside
	export REDIS_SERVER="$2"
	run="-test.count=1 -test.timeout=${TIMEOUT:-40m} ${3:-}"
	says=ok
	# shellcheck disable=SC2086 # words
	out=$(
		exec 2>&1
		status=0
		(cd test/servers && "$build/servers.test" $run -test.parallel=4) || status=1
		(cd redlock && "$build/redlock.test" $run -test.run=OnAServer) || status=1
		(cd redlock/redlockcheck && "$build/redlockcheck.test" $run -test.parallel=4) || status=1
		(cd internal/testcluster && "$build/testcluster.test" $run -test.run=Server) || status=1
		(cd compat && "$build/compat.test" $run) || status=1
		exit $status
	) || says=FAILED
	[ $says = ok ] || echo "$out"
	printf '%-7s %s\n' $says "$("$2" --version)"
	[ $says = ok ]
	exit
fi

jobs=1
short=
if [ "${1:-}" = -short ]; then
	jobs=${CORES:-1}
	short=-test.short
	shift
fi
if [ $# = 0 ]; then
	own=
	[ -n "$short" ] || own=$(command -v redis-server || command -v valkey-server || true)
	newer=$(sh scripts/servers.sh ${short:+sid})
	IFS='
' # A path may have spaces.
	# shellcheck disable=SC2086 # words
	set -- $own $newer
	unset IFS
fi
[ $# -gt 0 ] || exit 0 # scripts/servers.sh has said why.

mkdir -p "$build"
"$go" test -c -vet=off -o "$build/servers.test" ./test/servers
"$go" test -c -vet=off -o "$build/redlock.test" ./redlock
"$go" test -c -vet=off -o "$build/redlockcheck.test" ./redlock/redlockcheck
"$go" test -c -vet=off -o "$build/testcluster.test" ./internal/testcluster
(cd compat && "$go" test -c -vet=off -o "$build/compat.test" .)

for server in "$@"; do
	printf '%s\0' "$server"
done | xargs -0 -P "$jobs" -I '{}' sh scripts/matrix.sh -on '{}' $short
