#!/bin/sh
# A step of training takes no more instructions than tests/check/instructions.txt allows each compiler.
# instructions.sh BUILD [anew]: "anew" writes that file with what is counted (make instructions).
#
# Times are different each time, the number of instructions is the same, on every machine, with one version of a
# compiler. Callgrind counts those of the second step: it writes down what it has counted when a step ends, and begins
# anew. It knows AVX2 but not AVX-512.
set -eu
build=$1 budget=tests/check/instructions.txt anew=${2:-}
SLACK=5 # percent

command -v valgrind >/dev/null || { echo "skipped: there is no valgrind"; exit 0; }
grep -qw avx2 /proc/cpuinfo 2>/dev/null || { echo "skipped: this processor has no AVX2"; exit 0; }
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

count() { # PROGRAM PRECISION: its instructions
    valgrind --tool=callgrind --callgrind-out-file="$place/out" --dump-after=hst_trainer_step "$1" "$2" \
        > "$place/log" 2>&1 || { cat "$place/log" >&2; exit 1; }
    sed -n 's/^totals: *//p' "$place/out.2"
}

compare() { # COMPILER VERSION PRECISION INSTRUCTIONS: with the budget; fails where there are too many
    allowed=$(awk -v key="$1 $2 $3" '$1 " " $2 " " $3 == key {print $4}' $budget)
    if [ -z "$allowed" ]; then
        echo "skipped: no budget for $1 $2, $3: $4 instructions a step; make instructions writes one"
        return
    fi
    percent=$((100 * $4 / allowed - 100))
    echo "$1 $2, $3: $4 instructions a step, $percent % from its budget, $allowed"
    if [ $((100 * allowed)) -gt $((100 * $4 + SLACK * allowed)) ]; then
        echo "note: that is far less; make instructions lowers the budget, so that it is not lost again"
    fi
    [ $((100 * $4)) -le $(((100 + SLACK) * allowed)) ]
}

failed=0
for compiler in gcc clang; do
    command -v $compiler >/dev/null || { echo "skipped: there is no $compiler"; continue; }
    version=$($compiler -dumpversion | cut -d. -f1)
    build_own() { # TARGET...: with the settings that the budget is for
        make --no-print-directory -j"$(nproc 2>/dev/null || echo 2)" CC=$compiler CFLAGS='-O2 -g1' WERROR=-Werror \
            KERNEL_OPTIMIZE=-O3 LDFLAGS= BUILD="$own" "$@" > "$place/log" || { cat "$place/log" >&2; exit 1; }
    }
    own=$build/$compiler
    build_own "$own/settings"
    if cmp -s "$own/settings" "$build/settings"; then own=$build; fi # CI's: one library less to build
    build_own "$own/libhalfstep.a" "$own/include/halfstep.h"
    $compiler -std=c11 -O2 -I"$own/include" tests/check/instructions.c "$own/libhalfstep.a" -lm -pthread \
        -Wl,--strip-debug -o "$place/program" # some versions of valgrind do not understand what clang writes there
    for precision in fp32 amp-bf16; do
        taken=$(count "$place/program" $precision)
        echo "$compiler $version $precision $taken" >> "$place/new"
        [ "$anew" = anew ] || compare $compiler "$version" $precision $taken || failed=1
    done
done

if [ "$anew" = anew ]; then # rows of other compilers stay
    awk 'NR == FNR {new[$1 $2 $3] = $0; next} /^#/ || !($1 $2 $3 in new)' "$place/new" $budget > "$place/others"
    cat "$place/others" "$place/new" > $budget
    cat $budget
elif [ $failed = 1 ]; then
    echo "a step takes more than $SLACK % above its budget; valgrind --tool=callgrind and callgrind_annotate show where," \
        "for tests/check/instructions.c, beside the same before the change; if it is meant, make instructions" >&2
    exit 1
fi
