#!/bin/sh
# check.sh BUILD: what CI runs beyond `make test`. Each step says its name, and fails loudly.
set -eu
build=$1
step() { printf '\n== %s\n' "$1"; }
jobs=$(nproc 2>/dev/null || echo 2)

step "public headers alone, as C11 and C++17, included twice"
for header in train/halfstep.h tensor/tensor.h autograd/autograd.h autograd/custom.h ops/ops.h optim/optim.h models/models.h data/data.h train/train.h; do
    for language in c:-std=c11 c++:-std=c++17; do
        printf '#include "%s"\n#include "%s"\nint main(void) { return 0; }\n' "$header" "$header" |
            ${CC:-cc} -x "${language%%:*}" "${language#*:}" -Wall -Wextra -Wpedantic -Werror -I. -fsyntax-only -
    done
done

step "only hst_ is exported, nothing forbidden is imported, no writable globals"
make --no-print-directory -j"$jobs" BUILD="$build" all
if nm -D --defined-only "$build/libhalfstep.so" | awk '{print $3}' | grep -v '^hst_'; then exit 1; fi
if nm -u "$build/libhalfstep.a" | grep -wE 'exit|_exit|abort|printf|puts|getenv|setlocale|signal|rand|srand|strtok|localtime|system|stdout|stderr'; then exit 1; fi
if nm -f sysv "$build/libhalfstep.a" | grep -E '[|] *[.](data|bss|tdata|tbss)$'; then exit 1; fi

if command -v clang >/dev/null; then
    step "clang compiles everything without a warning"
    make --no-print-directory -j"$jobs" CC=clang WERROR=-Werror BUILD="$build/clang" all
fi

step "gcc compiles everything without a warning, and every suite passes under AddressSanitizer and UndefinedBehaviorSanitizer"
make --no-print-directory -j"$jobs" BUILD="$build/asan" WERROR=-Werror KERNEL_OPTIMIZE=-O1 CFLAGS='-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer' run-tests
