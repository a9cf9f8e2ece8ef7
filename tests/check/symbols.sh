#!/bin/sh
# The library exports what tests/abi/symbols.txt lists, imports what tests/abi/imports.txt allows, has no variables.
set -eu
build=$1
jobs=$(nproc 2>/dev/null || echo 2)
make --no-print-directory -j"$jobs" BUILD="$build" all
fail() { echo "$*" >&2; exit 1; }

tests/abi/symbols.sh "$build/libhalfstep.so" | diff tests/abi/symbols.txt - ||
    fail "the API is not the one in tests/abi/symbols.txt (<); if that is meant, make symbols"
if nm -g --defined-only "$build/libhalfstep.a" | awk 'NF == 3 {print $3}' | grep -v '^hst_'; then
    fail "a name without hst_ would collide with the program's in a static link"
fi

# A C library of another version or with checks calls the same function by another name.
defined=$(mktemp) imported=$(mktemp)
trap 'rm -f "$defined" "$imported"' EXIT
nm -g --defined-only "$build/libhalfstep.a" | awk 'NF == 3 {print $3}' | sort -u > "$defined"
nm -u "$build/libhalfstep.a" | awk '$1 == "U" {print $2}' | sed 's/^__isoc[0-9]*_//; s/^__\(.*\)_chk$/\1/' | sort -u |
    comm -23 - "$defined" > "$imported"
if sed 's/#.*//' tests/abi/imports.txt | tr -s ' ' '\n' | sort -u | comm -13 - "$imported" | grep -v '^__aarch64_'; then
    fail "the library calls functions that tests/abi/imports.txt does not allow"
fi
allocators=$(nm -A -u "$build/libhalfstep.a" | awk '$NF ~ /^(malloc|calloc|realloc|free|aligned_alloc)$/' | cut -d: -f2)
for object in $allocators; do
    [ "$object" = pool.o ] || fail "$object: only tensor/pool.c asks the system for memory; the rest asks the context"
done

if nm -f sysv "$build/libhalfstep.a" | grep -E '[|] *[.](data|bss|tdata|tbss)([.]rel([.]local)?)?$'; then
    fail "a variable that all contexts would share"
fi
if readelf -SW "$build/libhalfstep.a" | grep -E '[.](init|fini)_array|[.][cd]tors'; then
    fail "code that runs before main or after it"
fi
