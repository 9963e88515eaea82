#!/bin/sh
# Compares what the modules that people import export with the last release, or with OLD=tag-or-commit, and prints what
# breaks programs. From v1 on it fails if there is any; before, a release may break them, and CHANGELOG.md says how.
set -eu
cd "$(dirname "$0")/.."

go=${GO:-go}
old=${OLD:-$(git describe --tags --abbrev=0 --match='v*' 2>/dev/null || true)}
if [ -z "$old" ]; then
	echo "api-diff: there is no release yet to compare with"
	exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git archive "$old" | tar -x -C "$work"
GOBIN="$work/bin" "$go" install golang.org/x/exp/cmd/apidiff@v0.0.0-20261113113407-e3970619a1a4

for m in . otelredlock integrations/* integrations/redsync/redis/goredis/*; do
	[ -f "$m/go.mod" ] && [ -f "$work/$m/go.mod" ] || continue
	module=$("$go" -C "$m" list -m)
	(cd "$work/$m" && "$work/bin/apidiff" -m -w "$work/old" "$module") 2>"$work/log" &&
		(cd "$m" && "$work/bin/apidiff" -m -w "$work/new" "$module") 2>>"$work/log" || {
		cat "$work/log" >&2
		exit 1
	}
	"$work/bin/apidiff" -m -incompatible "$work/old" "$work/new" >"$work/found" 2>"$work/log" || {
		cat "$work/log" >&2
		exit 1
	}
	# What is below test/ and examples/ is nobody's to import.
	grep -vE '/(test|examples)/' "$work/found" | sed "s|^|$module: |" | tee -a "$work/breaks"
done
case $old in
v[1-9]*) [ ! -s "$work/breaks" ] ;;
esac
