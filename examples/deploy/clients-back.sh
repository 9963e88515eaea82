#!/bin/sh
# Says how many connections for locks each node has, and exits with 0 if all nodes have as many: then every client is
# connected to every node, and the next one may be restarted.
#
#   REDISCLI_AUTH=… sh clients-back.sh '--user operator --tls --cacert ca.crt' 10.0.0.1:6379 10.0.0.2:6379 10.0.0.3:6379
#
# A process has one such connection to each node, besides those that listen for releases, which do not count. A tool
# that connects just now may make a difference: until sh clients-back.sh …; do sleep 1; done
set -eu
user=${LOCK_USER:-locker}
options=$1
shift
counts=
for node in "$@"; do
	# shellcheck disable=SC2086 # options
	list=$(redis-cli $options -h "${node%:*}" -p "${node##*:}" CLIENT LIST)
	count=$(printf '%s\n' "$list" | grep -v ' flags=P ' | grep -c " user=$user " || true)
	echo "$node: $count"
	counts="$counts$count
"
done
[ "$(printf %s "$counts" | sort -u | wc -l)" = 1 ] && ! printf %s "$counts" | grep -qx 0
