#!/bin/sh
# Makes the commit of a release, and says which tags it is to get:
#
#   sh scripts/release.sh v0.1.0
#
# It pushes nothing and sets no tag. What it does:
#
#   1. checks that the tree is clean, the version is new, and CHANGELOG.md has something Unreleased
#   2. runs make check (CHECK=command: that instead)
#   3. commits the release: CHANGELOG.md's Unreleased becomes the version, with today's date, the
#      modules that users get besides the library require that version of it, and the documents no
#      longer say how to do without a release
#   4. has go install and go get find these modules in a folder, as in a proxy after the tags are pushed
#   5. builds the archives and packages of the tool from that folder, with GoReleaser: build/dist, to be
#      published with the release (PACK=command: that instead)
#   6. commits the way back: these modules are built from the library beside them again
#
# Why two commits: 'go install …/cmd/redlock@VERSION' refuses a module with a replace line, and
# without one a change of the library and of such a module could not be tried together.
set -eu
cd "$(dirname "$0")/.."

module=github.com/seed6c881748/redlock
# As in test/repository/publish. What a line requires besides the library, the ones before it have.
released="cmd/redlock otelredlock integrations/*"
pools="integrations/redsync/redis/goredis/*"
version=${1:-}

die() {
	echo "release: $*" >&2
	exit 1
}

part='(0|[1-9][0-9]*)'
printf '%s' "$version" | tr '\n' ' ' | grep -qE "^v[01]\.$part\.$part(-[0-9A-Za-z]+(\.[0-9A-Za-z]+)*)?\$" ||
	die "usage: release.sh vX.Y.Z (from v2 on, the module needs another path); got \"$version\""
number=${version#v}
[ -z "$(git status --porcelain)" ] || die "there are changes that are not committed"
branch=$(git symbolic-ref --short -q HEAD) || die "HEAD is not on a branch"

# A module whose folder ends in the major version of another library has that one, too, as the go command wants it: of
# v0.91.0 and v1.2.3, v9.91.0 and v9.1002.3. Its tags are named by the folder above.
version_of() {
	case $1 in
	*/v[2-9])
		rest=${version#v?.}
		minor=${rest%%.*}
		[ "${version%%.*}" = v0 ] || minor=$((1000 + minor))
		echo "${1##*/}.$minor.${rest#*.}"
		;;
	*) echo "$version" ;;
	esac
}
tag_of() {
	case $1 in
	*/v[2-9]) echo "${1%/*}/$(version_of "$1")" ;;
	*) echo "$1/$version" ;;
	esac
}
present() {
	for m in "$@"; do
		if [ -f "$m/go.mod" ]; then echo "$m"; fi
	done
}
first=$(present $released)
second=$(present $pools)
modules="$first $second"
tags=$version
for m in $modules; do
	tags="$tags $(tag_of "$m")"
done
for t in $tags; do
	! git rev-parse -q --verify "refs/tags/$t" >/dev/null || die "the tag $t exists"
done
! grep -qF "## $number " CHANGELOG.md || die "CHANGELOG.md has a version $number"
awk '/^## /{on = $0 == "## Unreleased"; next} on && /^- /{n++} END {exit n == 0}' CHANGELOG.md ||
	die "CHANGELOG.md has nothing under '## Unreleased'"

${CHECK:-make check} || die "the checks fail"
[ -z "$(git status --porcelain)" ] || die "the checks have changed the tree"
# GoReleaser before anything is committed, and from the usual proxy.
[ -n "${PACK:-}" ] || make packages-tools || die "what the packages are made with cannot be installed"

work=$(mktemp -d)
start=$(git rev-parse HEAD)
made=
finish() { # However it ends, by a signal or a hook of git, too: what is not whole is undone.
	if [ -z "$made" ]; then
		git reset -q --hard "$start" && echo "release: the branch is as it was" >&2
	fi
	chmod -R u+w "$work"
	rm -rf "$work"
}
trap finish EXIT
trap 'exit 1' HUP INT TERM

# With the release in a folder as their proxy, and a module cache of their own: what is
# published in the end may be another commit. With -trimpath, packages that were compiled from
# another module cache need not be compiled again.
GOFLAGS="$(go env GOFLAGS) -modcacherw -trimpath"
export GOFLAGS
usual="file://$(go env GOMODCACHE)/cache/download,$(go env GOPROXY)"
as_released() { # Without GONOPROXY, with which go install overlooks modules that a cached one is the prefix of.
	GOPROXY="file://$work/proxy,$usual" GONOSUMDB="$module,$module/*" \
		GOMODCACHE="$work/cache" GOWORK=off GOBIN="$work/bin" "$@"
}
released_go() { as_released go "$@"; }
packages() { # The tags are not set yet, and none is pushed.
	as_released env PATH="$PWD/build/bin:$PATH" GORELEASER_CURRENT_TAG="$version" \
		${PACK:-goreleaser release --clean --skip=validate,publish,announce}
}
proxy() { # of the commit HEAD
	rm -rf "$work/proxy" "$work/cache"
	(cd test/repository/publish && GOWORK=off go run . -repo ../../.. -commit HEAD -version "$version" -proxy "$work/proxy")
}

# The library first: the go.sum of the other modules has its hash, which their files are no part of.
awk -v heading="## $number - $(date +%Y-%m-%d)" '
	{ print } $0 == "## Unreleased" { print ""; print heading }' CHANGELOG.md >"$work/changelog"
cat "$work/changelog" >CHANGELOG.md
git ls-files '*.md' llms.txt | while read -r f; do # With the first release, this has nothing left to do.
	sed -e '/[Nn]ot published yet/,/^$/d' -e '/^go mod edit -replace /d' "$f" >"$work/page"
	cat "$work/page" >"$f"
done
git commit -q -a -m "Release $version"
proxy || die "the library could not be packed"
for level in "$first" "$second"; do
	for m in $level; do
		edit=
		for replaced in $(sed -n "s:^[[:space:]]*\\(replace \\)*\\($module[^ ]*\\) => .*:\\2:p" "$m/go.mod"); do
			edit="$edit -dropreplace=$replaced -require=$replaced@$(version_of "${replaced#"$module"/}")"
		done
		(cd "$m" && go mod edit $edit && released_go mod tidy) || die "$m does not get along with $module@$version"
	done
	git commit -q -a --amend --no-edit
	proxy || die "the modules could not be packed"
done
release=$(git rev-parse HEAD)

for m in $modules; do
	grep -q '^replace' "$m/go.mod" && die "$m/go.mod has a replace line besides the library's"
	(cd "$m" && released_go mod tidy -diff && released_go vet ./...) || die "$m of the release does not build"
	if (cd "$m" && released_go list -f '{{.Name}}' .) | grep -qx main; then
		released_go install "$module/$m@$(version_of "$m")" || die "$m cannot be installed"
		echo "release: go install $module/$m@$version works"
	fi
done
mkdir "$work/user"
(cd "$work/user" && released_go mod init example.com/user 2>/dev/null && for m in . $modules; do
	released_go get "$module/$m@$(version_of "$m")" || exit 1
done) || die "a user's go get fails"

[ ! -f cmd/redlock/go.mod ] || packages || die "the packages of the tool cannot be built"
[ -z "$(git status --porcelain)" ] || die "the packages have changed the tree"

for m in $modules; do
	git checkout -q "$start" -- "$m/go.mod" "$m/go.sum"
	(cd "$m" && go mod tidy) || die "$m does not go back to the library beside it"
done
if [ -n "$modules" ]; then
	git commit -q -a -m "Build the other modules from the library beside them again" -m "As before $version."
fi
made=1

cat <<EOF

$version is the commit $release on $branch; nothing was pushed. When it is as it should be:

EOF
for t in $tags; do
	echo "  git tag -a $t -m '$t' $release"
done
echo "  git push --atomic origin $branch${modules:+ ${tags#"$version "}}"
echo "  git push origin $version"
echo
echo "The version's tag comes alone: GitHub starts no workflow for more than three tags at once. .github/workflows/release.yml"
echo "then builds the packages once more, attests where they come from, and publishes them. What build/dist has of them must"
echo "have the same checksums, if the version of Go is the same; the SBOMs have a time and a number of their own."
echo
echo "To undo it: git reset --hard $start"
