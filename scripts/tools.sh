#!/bin/sh
# Makes sure that this machine has what the tests need besides Go:
#
#   make           to run the Makefile at all (for .ci/run on a bare machine)
#   redis-server   or valkey-server: the tests start their own, on free ports
#   chromium       where CI=true: tests look at the pages of redlockhttp and of the playground
#   node, npm      where CI=true: compat/ has clients for node contend with this library's
#   postgres,      where CI=true: the servers of PostgreSQL and MariaDB, for the tests of fencing and of
#   mariadbd       integrations with migration tools
#   coq            where CI=true: it checks the proof in proof/coq
#   bash, ps       the tests of the command line tool use them
#   a C compiler   with the argument race, for go test -race
#   man, lintian   with the argument packages, on Debian: a test has them use and check the .deb
#
# What is missing is installed with the system's package manager when this runs
# as root (with Homebrew: as its user); the command is printed first. Otherwise
# one line says what to install, and the exit status is 1.
#
# REDIS_SERVER=/path/to/redis-server: use that binary, install no server.
set -eu

go=${GO:-go}
race=${1:-} # or packages

die() {
	echo "tools: $*" >&2
	exit 1
}

has() { command -v "$1" >/dev/null 2>&1; }

# A compiler without the C library's headers does not do for cgo, so compile.
cc_works() {
	cc=${CC:-$("$go" env CC)}
	# shellcheck disable=SC2086 # CC may hold flags
	printf '#include <stdlib.h>\nint main(void) { return EXIT_SUCCESS; }\n' |
		$cc -x c -o /dev/null - >/dev/null 2>&1
}

server() {
	if [ -n "${REDIS_SERVER:-}" ]; then
		command -v "$REDIS_SERVER"
	else
		command -v redis-server || command -v valkey-server
	fi
}

# Debian and Alpine keep these programs out of the PATH.
has_postgres() { has postgres || ls /usr/lib/postgresql/*/bin/postgres /usr/libexec/postgresql*/postgres 2>/dev/null | grep -q .; }
has_mariadb() { has mariadbd || [ -x /usr/sbin/mariadbd ] || [ -x /usr/libexec/mariadbd ]; }

missing() { # prints one word per thing that is missing
	has make || echo make
	[ "$race" != race ] || cc_works || echo cc
	if [ "$race:$(id -u):$(manager)" = packages:0:apt-get ]; then
		has man || echo man
		has lintian || echo lintian
	fi
	server >/dev/null || echo server
	[ "${CI:-}" != true ] || has chromium || echo chromium
	[ "${CI:-}" != true ] || has node || echo node
	[ "${CI:-}" != true ] || has npm || echo npm
	[ "${CI:-}" != true ] || has_postgres || echo postgres
	[ "${CI:-}" != true ] || has_mariadb || echo mariadb
	[ "${CI:-}" != true ] || has coqc || echo coq
	has bash || echo bash
	has ps || echo ps
}

names() { # the same for people
	for m in $1; do
		case $m in
		cc) echo "a C compiler" ;;
		server) echo "redis-server or valkey-server" ;;
		postgres) echo PostgreSQL ;;
		mariadb) echo MariaDB ;;
		coq) echo Coq ;;
		*) echo "$m" ;;
		esac
	done | paste -s -d , - | sed 's/,/, /g'
}

manager() {
	for m in apt-get dnf apk brew; do
		if has "$m"; then
			echo "$m"
			return
		fi
	done
}

packages() { # of manager $1, for the missing things $2
	for m in $2; do
		case $1:$m in
		*:make) echo make ;;
		*:man) echo man-db ;;
		*:lintian) echo lintian ;;
		*:chromium) echo chromium ;;
		apk:node | dnf:node | apt-get:node) echo nodejs ;;
		brew:node) echo node ;;
		brew:npm) ;;
		dnf:npm) echo nodejs-npm ;;
		*:npm) echo npm ;;
		dnf:postgres) echo postgresql-server ;;
		*:postgres) echo postgresql ;;
		apt-get:mariadb) echo mariadb-server-core ;;
		dnf:mariadb) echo mariadb-server ;;
		*:mariadb) echo mariadb ;;
		*:coq) echo coq ;;
		*:bash) echo bash ;;
		dnf:ps) echo procps-ng ;;
		*:ps) echo procps ;;
		apt-get:cc) echo gcc libc6-dev ;;
		dnf:cc) echo gcc glibc-devel ;;
		apk:cc) echo gcc musl-dev ;;
		apt-get:server) echo redis-server ;;
		dnf:server) if dnf -q info redis >/dev/null 2>&1; then echo redis; else echo valkey; fi ;;
		apk:server | brew:server) echo redis ;;
		esac
	done | paste -s -d ' ' -
}

install_command() { # of manager $1, for the packages $2
	case $1 in
	apt-get) echo "apt-get install -y --no-install-recommends $2" ;;
	dnf) echo "dnf install -y --setopt=install_weak_deps=False $2" ;;
	apk) echo "apk add --no-cache $2" ;;
	brew) echo "brew install $2" ;;
	esac
}

run() {
	echo "+ $*"
	"$@"
}

# Debian's packages start the server as a system service. The tests do not want
# it, so it is denied, by Debian's own mechanism, for as long as apt-get runs.
policy=/usr/sbin/policy-rc.d
deny_services() {
	if [ -e $policy ] || [ -L $policy ] || ! [ -d /usr/sbin ]; then
		return
	fi
	trap 'rm -f $policy' EXIT
	trap 'exit 1' HUP INT TERM
	echo "+ $policy denies the start of services until the packages are installed"
	printf '#!/bin/sh\nexit 101\n' >$policy
	chmod 755 $policy
}

has "$go" || die "$go is not on the PATH"
if [ "$race" = race ] && [ -n "${CC:-}" ]; then
	cc_works || die "CC=$CC is not a working C compiler"
fi
if [ -n "${REDIS_SERVER:-}" ]; then
	server >/dev/null || die "REDIS_SERVER=$REDIS_SERVER is not a program"
fi

need=$(missing)
if [ -n "$need" ]; then
	pm=$(manager)
	[ -n "$pm" ] || die "install $(names "$need") (no package manager that this script knows)"
	case $pm:$need in
	brew:*cc*) die "install a C compiler with: xcode-select --install" ;;
	esac
	cmd=$(install_command "$pm" "$(packages "$pm" "$need")")

	case $pm:$(id -u) in
	brew:0) die "install $(names "$need") as Homebrew's user, not as root: $cmd" ;;
	brew:*) ;;
	*:0) ;;
	*) die "install $(names "$need") as root: $cmd" ;;
	esac

	echo "tools: installing $(names "$need")"
	if [ "$pm" = apt-get ]; then
		export DEBIAN_FRONTEND=noninteractive
		deny_services
		run apt-get update -q
	fi
	# shellcheck disable=SC2086 # words
	run $cmd </dev/null

	need=$(missing)
	[ -z "$need" ] || die "still missing after '$cmd': $(names "$need")"
fi

server=$(server)
echo "tools: $server: $("$server" --version)"
