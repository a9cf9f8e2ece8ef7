#!/bin/sh
# listings.sh BUILD CC: compiles and runs every C listing of the chapters. A listing is a block that starts with ```c in a
# README.md; each is a whole program, which must end with status 0.
set -eu
build=$1 cc=$2 count=0
mkdir -p "$build/listings"
for chapter in README.md */README.md; do
    name=$(echo "$chapter" | tr / _)
    rm -f "$build/listings/$name".*
    awk -v out="$build/listings/$name" '/^```c$/ {n++; inside = 1; next} /^```/ {inside = 0} inside {print > (out "." n ".c")}' "$chapter"
    for listing in "$build/listings/$name".*.c; do
        [ -e "$listing" ] || continue
        program=${listing%.c}
        $cc -std=c11 -Wall -Wextra -Werror -I"$build/include" -I. "$listing" "$build/libhalfstep.a" -lm -pthread -o "$program"
        (cd "$build/listings" && "./$(basename "$program")" >"$(basename "$program").out" 2>&1) || {
            echo "$chapter: listing $(basename "$program") failed" >&2
            cat "$program.out" >&2
            exit 1
        }
        count=$((count + 1))
    done
done
echo "listings: $count programs from the chapters compiled and ran"
