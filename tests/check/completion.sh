#!/bin/sh
# The completion scripts are right for the shells that are here; what they offer is tested in tests/cli.
set -eu
build=$1
make --no-print-directory BUILD="$build" surfaces
for shell in bash zsh fish; do
    if command -v "$shell" >/dev/null; then
        "$shell" -n "$build/completions/$shell"
    else
        echo "skipped: there is no $shell"
    fi
done
