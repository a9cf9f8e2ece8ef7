#!/bin/sh
# gcc compiles all without a warning, and every suite passes under AddressSanitizer and UndefinedBehaviorSanitizer.
set -eu
make --no-print-directory -j"$(nproc 2>/dev/null || echo 2)" BUILD="$1/asan" WERROR=-Werror KERNEL_OPTIMIZE=-O1 \
    CFLAGS='-O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer' run-tests
