#!/bin/sh
# run.sh PROGRAM...: runs the test programs from the top of the tree, one after the other; all of them, even after a failure.
set -u
failed=
for program in "$@"; do
    echo "== $(basename "$(dirname "$program")")"
    "$program" || failed="$failed $program"
done
[ -z "$failed" ] || { echo "failed:$failed" >&2; exit 1; }
echo "all of $# suites passed"
