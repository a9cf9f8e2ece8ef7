#!/bin/sh
# The manual pages have no faults that man and mandoc know, and name every environment variable that the command reads.
set -eu
build=$1
make --no-print-directory BUILD="$build" SOURCE_DATE_EPOCH=1700000000 surfaces
for page in "$build"/man/*; do
    if command -v man >/dev/null; then
        warnings=$(LC_ALL=C.UTF-8 man --warnings -E UTF-8 -l -Tutf8 -Z "$page" 2>&1 >/dev/null)
        [ -z "$warnings" ] || { printf '%s\n%s\n' "$page" "$warnings" >&2; exit 1; }
        LC_ALL=C.UTF-8 man -l "$page" | grep -q 'halfstep manual' || { echo "$page: is not shown" >&2; exit 1; }
    fi
    if command -v mandoc >/dev/null; then mandoc -T lint -W warning "$page"; fi
done
command -v man >/dev/null || echo "skipped: there is no man"
command -v mandoc >/dev/null || echo "skipped: there is no mandoc"
for variable in $(grep -ho 'getenv("[A-Z_]*")' train/cli/*.c | cut -d'"' -f2 | sort -u); do
    grep -q "^.fB$variable.fP$" "$build/man/halfstep.1" ||
        { echo "$variable is read, but not in the ENVIRONMENT of halfstep.1" >&2; exit 1; }
done
