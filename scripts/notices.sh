#!/bin/sh
# Writes what the packages of the tool say of their licences and of their version:
#
#   sh scripts/notices.sh v0.1.0 2026-11-23T08:59:31Z build/manual
#
#   third-party.txt    the licences of what is in the program besides redlock, as they are
#   copyright          the same as Debian wants it: without the texts that every Debian has
#   changelog.yaml     the version, for the changelogs of .deb and .rpm
#   lintian-overrides  why lintian is not to be heeded where it is not
set -eu
usage="usage: notices.sh VERSION TIME FOLDER"
version=${1:?$usage}
time=${2:?$usage}
mkdir -p "${3:?$usage}"
folder=$(cd "$3" && pwd)
cd "$(dirname "$0")/.."
home=https://github.com/seed6c881748/redlock

# The modules that are in the program on any of some systems: name, version and folder of each.
modules() {
	for system; do
		(cd cmd/redlock && GOOS=$system go list -deps -f '{{with .Module}}{{.Path}} {{.Version}} {{.Dir}}{{end}}' .)
	done | grep -v "^${home#https://}[ /]" | sort -u
	echo "go $(go env GOVERSION) $(go env GOROOT)"
}

license_of() { # in the folder $1
	for file in "$1/LICENSE" "$1/LICENSE.txt"; do
		if [ -f "$file" ]; then
			echo "$file"
			return
		fi
	done
	echo "notices: $1 has no licence" >&2
	return 1
}

modules linux darwin windows | while read -r name number dir; do
	file=$(license_of "$dir")
	printf '%s %s\n\n' "$name" "$number"
	cat "$file"
	printf '\n----\n\n'
done >"$folder/third-party.txt"

{
	printf 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n'
	printf 'Upstream-Name: redlock\nSource: %s\n\n' "$home"
	printf 'Files: *\nCopyright: %s\nLicense: Apache-2.0\n' "$(sed -n 's/^ *Copyright \([0-9]\)/\1/p' LICENSE)"
	modules linux | while read -r name number dir; do
		file=$(license_of "$dir")
		holders=$(sed -nE 's/^Copyright (\(c\) )?//p' "$file" | sed -E 's/ *All rights reserved\.?$//; 2,$s/^/ /')
		printf '\nFiles: %s/*\nCopyright: %s\n' "$name" "${holders:-the authors of $name}"
		if grep -q '^ *Apache License$' "$file"; then
			echo "License: Apache-2.0"
		elif ! grep -q '^Redistribution and use in source and binary forms' "$file"; then
			echo "notices: $file is of a kind that is not known here" >&2
			exit 1
		else
			echo "License: BSD-3-clause-$(basename "$name")"
			sed 's/^$/./; s/^/ /' "$file"
		fi
	done
	printf '\nLicense: Apache-2.0\n On Debian systems, its text is in /usr/share/common-licenses/Apache-2.0.\n'
} >"$folder/copyright"

# With the release number of the packages.
cat >"$folder/changelog.yaml" <<EOF
- semver: ${version#v}-1
  date: $time
  packager: $(sed -n 's/^ *maintainer: //p' .goreleaser.yaml)
  deb: {urgency: medium, distributions: [stable]}
  changes:
    - note: See CHANGELOG.md on the home page for what is new.
EOF

cat >"$folder/lintian-overrides" <<EOF
# A Go program without cgo has no libraries to link. The same file runs on every Linux.
redlock: statically-linked-binary [usr/bin/redlock]
# Debian's tracker has no bug that asks for it.
redlock: initial-upload-closes-no-bugs [usr/share/doc/redlock/changelog.Debian.gz:1]
# GoReleaser names the level of the instruction set.
redlock [amd64]: unknown-field Architecture-Variant
EOF
