#!/bin/sh
# example.sh BUILD CC: builds and tests the operation that the chapter ops/README.md adds, in a copy of the tree. A block
# that starts with ```c add goes into the file that the line before it names in `backquotes`: it is the whole of a new
# file, or, if that line has a second such part, it is inserted before the first line of the file that contains it.
# The copy has the folders that an operation needs, and of the fast kernels those that every machine can run.
set -eu
build=$1 cc=$2 chapter=ops/README.md
tree=$build/example new=$build/example.new
rm -rf "$new"
mkdir -p "$new/tests/gradients" "$new/tests/ops" "$tree"
cp -R Makefile tensor autograd ops "$new"
cp tests/gradients/cases*.[ch] tests/gradients/test_gradients.c "$new/tests/gradients"
cp tests/ops/twins.h tests/ops/isas.h tests/ops/test_kernels.c "$new/tests/ops"

awk -v out="$new/block" '
    /^```c add$/ {split(line, part, "`"); name = out "." ++n; print name "\t" part[2] "\t" part[4]; inside = 1; next}
    /^```/ {inside = 0}
    inside {print > name}
    NF {line = $0}' "$chapter" >"$new/blocks"
tab=$(printf '\t')
while IFS=$tab read -r block file anchor; do
    if [ -z "$anchor" ]; then
        [ ! -e "$new/$file" ] || { echo "$chapter: $file is not new" >&2; exit 1; }
        mv "$block" "$new/$file"
        continue
    fi
    awk -v block="$block" -v anchor="$anchor" '
        !found && index($0, anchor) {found = 1; while ((getline line < block) > 0) print line}
        {print}
        END {exit !found}' "$new/$file" >"$new/changed" || { echo "$chapter: no '$anchor' in $file" >&2; exit 1; }
    mv "$new/changed" "$new/$file"
    rm "$block"
done <"$new/blocks"
blocks=$(wc -l <"$new/blocks")
[ "$blocks" -gt 0 ] || { echo "$chapter: no blocks to add" >&2; exit 1; }
rm "$new/blocks"
sed -i 's/__x86_64__/ANOTHER_MACHINE/' "$new/ops/cpu/cpu.c"

# What did not change keeps its time, so that a second run compiles nothing.
(cd "$new" && find . -type f) | while read -r file; do
    cmp -s "$new/$file" "$tree/$file" || { mkdir -p "$(dirname "$tree/$file")" && cp "$new/$file" "$tree/$file"; }
done
(cd "$tree" && find Makefile tensor autograd ops tests -type f) | while read -r file; do
    [ -e "$new/$file" ] || rm "$tree/$file"
done
rm -rf "$new"

export MAKEFLAGS=
in_tree() { make --no-print-directory -C "$tree" -j"$(nproc 2>/dev/null || echo 2)" CC="$cc" CFLAGS=-O0 KERNEL_OPTIMIZE= WERROR=-Werror "$@"; }
{
    in_tree REAL=double BUILD=double double/tests/gradients/run &&
        in_tree ISAS=portable BUILD=float float/tests/ops/run &&
        (cd "$tree" && double/tests/gradients/run && float/tests/ops/run --filter '*softsign*')
} >"$tree/log" 2>&1 || { cat "$tree/log" >&2; echo "$chapter: the operation that it adds does not work" >&2; exit 1; }
echo "example: the operation of $chapter, $blocks blocks, compiled and passed its tests"
