#!/bin/sh
# Unpacks newer servers than the system's own, from other releases of Debian, and installs nothing:
#
#   sh scripts/servers.sh [RELEASE...]     # trixie and sid, unless told otherwise
#
# prints the path of one redis-server and one valkey-server of each release. They bring their own
# loader and libraries. They stay in build/servers, so that the next call is instant.
#
# It needs apt-get and a Debian archive among its sources, as what it unpacks comes from there; it
# need not be root. On other systems, and without a network, it says so in one line, and fails if CI=true.
set -eu
cd "$(dirname "$0")/.."

cannot() {
	echo "servers: $*" >&2
	[ "${CI:-}" != true ] || exit 1
	exit 0
}

command -v apt-get >/dev/null && command -v dpkg >/dev/null || cannot "newer servers are unpacked from Debian's packages only"
archive=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
	sed -nE 's#^(URIs:|deb( \[[^]]*\])?) *(https?://[^ ]*/debian)/?( .*)?$#\3#p' | head -n 1)
[ -n "$archive" ] || cannot "no Debian archive is configured"

unpack() { # into the folder $1 from the release $2
	mkdir -p "$1/lists/partial" "$1/cache" "$1/debs" "$1/root"
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $archive $2 main" >"$1/sources.list"
	set -- "$1" "$2" -o "Dir::Etc::SourceList=$1/sources.list" -o Dir::Etc::SourceParts=/dev/null \
		-o "Dir::State::Lists=$1/lists" -o "Dir::Cache=$1/cache" -o APT::Sandbox::User= -o Acquire::Languages=none
	dir=$1
	shift 2
	apt-get "$@" update -qq --error-on=any >&2 || cannot "the archive $archive cannot be read"
	# The servers, and what they are linked to, by all names that it has had. A release lacks some.
	(cd "$dir/debs" && for p in valkey-server valkey-tools redis-server redis-tools libc6 libjemalloc2 liblua5.1-0 \
		libssl3t64 libsystemd0 liblzf1 libatomic1 libhiredis1.1.0 libcrypt1 libcap2 zlib1g libzstd1 libstdc++6 libgcc-s1; do
		apt-get "$@" download "$p" >&2 || echo "servers: no $p" >&2
	done)
	for d in "$dir"/debs/*.deb; do
		dpkg -x "$d" "$dir/root"
	done
	lib=$(dirname "$(find "$dir/root" -name libjemalloc.so.2 | head -n 1)")
	loader=$(find "$dir/root" -name 'ld-linux*.so.*' | head -n 1)
	for s in redis valkey; do
		# What is installed is a link to a program of many names. It is told which by its first argument.
		printf '#!/bin/sh\nexec "%s" --argv0 %s-server --library-path "%s" "%s" "$@"\n' \
			"$loader" $s "$lib" "$dir/root/usr/bin/$s-check-rdb" >"$dir/$s-server.new"
		chmod +x "$dir/$s-server.new"
		"$dir/$s-server.new" --version >&2
		mv "$dir/$s-server.new" "$dir/$s-server"
	done
	rm -rf "$dir/lists" "$dir/cache" "$dir/debs"
}

[ $# -gt 0 ] || set -- trixie sid
for release in "$@"; do
	dir=$PWD/build/servers/$release
	if ! [ -x "$dir/redis-server" ] || ! [ -x "$dir/valkey-server" ]; then
		unpack "$dir" "$release"
	fi
	echo "$dir/redis-server"
	echo "$dir/valkey-server"
done
