#!/bin/sh
# check.sh BUILD [STEP...]: what CI runs beyond `make test`: the scripts in tests/check, or those named, one after the
# other. Each does one thing, says so in its second line, and ends with another status than 0 where that is not so.
set -eu
build=$1
shift
[ $# -gt 0 ] || set -- headers symbols manual completion plot install threads valgrind clang instructions sanitizers
for step in "$@"; do
    printf '\n== %s' "$(sed -n '2s/^# //p' "tests/check/$step.sh")"
    echo
    "tests/check/$step.sh" "$build"
done
