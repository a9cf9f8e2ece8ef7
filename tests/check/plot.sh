#!/bin/sh
# Without stb the command builds without a warning, trains without a picture, and plot says what is missing.
set -eu
build=$1
make --no-print-directory BUILD="$build" "$build/libhalfstep.a"
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
fail() { echo "$*" >&2; cat "$place/err" >&2; exit 1; }
${CC:-cc} -std=c11 -D_GNU_SOURCE -DCLI_WITHOUT_STB -I. -Wall -Wextra -Wpedantic -Werror train/cli/*.c \
    "$build/libhalfstep.a" -lm -pthread -o "$place/halfstep"
head -c 3000 README.md > "$place/text.txt"
"$place/halfstep" train "$place/text.txt" -o "$place/run" --steps 3 --layers 1 --hidden 8 --batch 2 --length 8 -q \
    2> "$place/err" || fail "a run failed"
[ ! -s "$place/err" ] && [ ! -e "$place/run/loss.png" ] || fail "train said something, or drew"
"$place/halfstep" info | grep -q '^pictures  no' || fail "info says that there are pictures"
code=0
"$place/halfstep" plot "$place/run" 2> "$place/err" || code=$?
[ $code = 1 ] && grep -q 'error: .*stb_image_write.h' "$place/err" || fail "plot ended with $code"
