#!/bin/sh
# Each public header, and all of them as installed, compiles alone, as C11 and as C++17, included twice.
set -eu
build=$1
make --no-print-directory BUILD="$build" "$build/include/halfstep.h"
parts=$(sed -n 's/^#include "\([^"]*\)".*/\1/p' train/halfstep.h)
for header in $parts train/halfstep.h "$build/include/halfstep.h"; do
    for language in c:-std=c11 c++:-std=c++17; do
        printf '#include "%s"\n#include "%s"\nint main(void) { return 0; }\n' "$header" "$header" |
            ${CC:-cc} -x "${language%%:*}" "${language#*:}" -Wall -Wextra -Wpedantic -Werror -I. -fsyntax-only -
    done
done
if grep -n '#define' "$build/include/halfstep.h" | grep -v '#define HST_'; then
    echo "a macro without HST_ in a public header" >&2
    exit 1
fi
