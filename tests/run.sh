#!/bin/sh
# run.sh BUILD PROGRAM...: runs the test programs from the top of the tree, one after the other; all of them, even after
# a failure. Plain programs (tests/embed) get a file to write and, where there is one, a locale.
set -u
build=$1 failed=
shift
locale=$(ls "$build/locales")
for program in "$@"; do
    name=${program#"$build/tests/"}
    echo "== ${name%/run}"
    case $name in
    embed/*) "$program" "$program.safetensors" $locale ;;
    *) "$program" -j0 ;; # as many tests at a time as there are cores
    esac || failed="$failed $program"
done
[ -z "$failed" ] || { echo "failed:$failed" >&2; exit 1; }
echo "all of $# suites passed"
