#!/bin/sh
# ThreadSanitizer finds no race while two contexts train in two threads.
set -eu
build=$1/tsan
jobs=$(nproc 2>/dev/null || echo 2)
make --no-print-directory -j"$jobs" BUILD="$build" KERNEL_OPTIMIZE=-O1 CFLAGS='-O1 -g1 -fsanitize=thread' \
    "$build/tests/embed/two_contexts"
# Newer kernels lay memory out at random in a way that it does not know.
TSAN_OPTIONS=halt_on_error=1 setarch "$(uname -m)" -R "$build/tests/embed/two_contexts"
