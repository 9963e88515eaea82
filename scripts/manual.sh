#!/bin/sh
# Writes the man page and the completions of the tool, for the packages:
#
#   sh scripts/manual.sh v0.1.0 build/manual
#
# The tool prints them itself, from the texts of its help.
set -eu
version=${1:?usage: manual.sh VERSION FOLDER}
mkdir -p "${2:?usage: manual.sh VERSION FOLDER}"
folder=$(cd "$2" && pwd)
cd "$(dirname "$0")/../cmd/redlock"

rm -rf "$folder/completions"
mkdir "$folder/completions"
# One that runs here, also while packages for another system are built.
env -u GOOS -u GOARCH go build -trimpath -buildvcs=false -ldflags "-X main.packaged=$version" -o "$folder/redlock" .
"$folder/redlock" man >"$folder/redlock.1"
gzip -9nf "$folder/redlock.1" # As Debian wants it: without a name and a time.
"$folder/redlock" completion bash >"$folder/completions/redlock.bash"
"$folder/redlock" completion fish >"$folder/completions/redlock.fish"
"$folder/redlock" completion zsh >"$folder/completions/_redlock"
"$folder/redlock" completion powershell >"$folder/completions/redlock.ps1"
rm "$folder/redlock"
