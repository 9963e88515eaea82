#!/bin/sh
# Unpacks Prometheus from the system's Debian or Ubuntu package, installs nothing and starts nothing:
#
#   sh scripts/promtool.sh     # prints the path of promtool, beside which is prometheus
#
# A test tries the alert rules of docs/telemetry with it. It stays in build/prometheus, so that the next
# call is instant. A promtool on the PATH will do as well.
#
# It need not be root. On other systems, and without a network, it says so in one line, and fails if CI=true.
set -eu
cd "$(dirname "$0")/.."

cannot() {
	echo "promtool: $*" >&2
	[ "${CI:-}" != true ] || exit 1
	exit 0
}

if command -v promtool; then
	exit 0
fi
dir=$PWD/build/prometheus
if ! [ -x "$dir/promtool" ]; then
	command -v apt-get >/dev/null && command -v dpkg >/dev/null || cannot "Prometheus is unpacked from a Debian package only"
	rm -rf "$dir"
	mkdir -p "$dir/lists/partial" "$dir/cache" "$dir/deb" "$dir/root"
	set -- -o "Dir::State::Lists=$dir/lists" -o "Dir::Cache=$dir/cache" -o APT::Sandbox::User= -o Acquire::Languages=none
	apt-get "$@" update -qq >&2 || cannot "the package lists cannot be read"
	(cd "$dir/deb" && apt-get "$@" download prometheus >&2) || cannot "there is no package of Prometheus"
	dpkg -x "$dir"/deb/*.deb "$dir/root"
	"$dir/root/usr/bin/promtool" --version >&2
	mv "$dir/root/usr/bin/prometheus" "$dir/root/usr/bin/promtool" "$dir"
	rm -rf "$dir/lists" "$dir/cache" "$dir/deb" "$dir/root"
fi
echo "$dir/promtool"
