#!/bin/sh
# clang compiles everything without a warning.
set -eu
if ! command -v clang >/dev/null; then
    echo "skipped: there is no clang"
    exit 0
fi
make --no-print-directory -j"$(nproc 2>/dev/null || echo 2)" CC=clang WERROR=-Werror BUILD="$1/clang" all
