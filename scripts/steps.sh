#!/usr/bin/env bash
# Runs targets of the Makefile one after the other, even when one has failed, and prints what each has taken:
#
#   bash scripts/steps.sh TARGET...
#
# That is the wall time, the processor time of all its processes, and the highest load average of one minute.
# No two run at the same time, as each has as many compilers and test binaries at a time as there are cores.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

loads=$(mktemp)
note_load() { cut -d ' ' -f 1 /proc/loadavg 2>/dev/null >>"$loads"; } # Only Linux has it.
(while note_load; do sleep 2; done) </dev/null >/dev/null 2>&1 &
watcher=$!
trap 'kill $watcher 2>/dev/null; rm -f "$loads"' EXIT

row() { printf '%-14s %-7s %7s %12s %8s\n' "$@"; }
highest() { sort -n | tail -n 1; }

exec 3>&1 4>&2
TIMEFORMAT='%0R %0U %0S'
table=$(row step '' 'wall, s' 'processor, s' load)
failed=()
all=0
peaks=
for target; do
	printf '\n===== %s\n' "$target"
	: >"$loads"
	note_load
	status=ok
	# What is caught is what time prints. A step inherits no other file: a test looks which ones a command has.
	took=$({ time "${MAKE:-make}" --no-print-directory "$target" </dev/null >&3 2>&4 3>&- 4>&-; } 2>&1) || {
		status=FAILED
		failed+=("$target")
	}
	read -r wall user system <<<"$took"
	peak=$(highest <"$loads")
	table+=$'\n'$(row "$target" $status "$wall" $((user + system)) "$peak")
	printf '===== %s: %s, %d s, processor %d s\n' "$target" $status "$wall" $((user + system))
	all=$((all + user + system))
	peaks+=$peak$'\n'
done

printf '\n===== summary\n%s\n' "$table"
row total '' $SECONDS $all "$(highest <<<"$peaks")"
if ((${#failed[@]})); then
	echo "FAILED: ${failed[*]}"
	exit 1
fi
