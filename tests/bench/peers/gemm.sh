#!/bin/sh
# gemm.sh [THREADS [ROUNDS [DTYPE]]]: products of this library beside OpenBLAS's (gemm.c), which is fetched as a Debian
# package into build/peers and installed nowhere else. OPENBLAS=/a/libopenblas.so takes one that is there already.
set -eu
cd "$(dirname "$0")/../../.."
build=${BUILD:-build} openblas=${OPENBLAS:-}
mkdir -p "$build/peers"
if [ -z "$openblas" ]; then
    here=$(pwd)
    test -d "$build/peers/usr" || (cd "$build/peers" && apt-get download libopenblas0-pthread libgfortran5 &&
        for package in *.deb; do dpkg -x "$package" .; done)
    libraries=$(dirname "$(find "$here/$build/peers/usr" -name 'libgfortran.so.5')")
    openblas=$(find "$here/$build/peers/usr" -name 'libopenblas.so.0')
    export LD_LIBRARY_PATH="$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
fi
make BUILD="$build" "$build/libhalfstep.a"
${CC:-cc} -std=c11 -D_GNU_SOURCE -O2 -Wall -Wextra -I. tests/bench/peers/gemm.c "$build/libhalfstep.a" -ldl -lm -pthread \
    -o "$build/peers/gemm"
"$build/peers/gemm" "$openblas" "${1:-1}" "${2:-9}" "${3:-f32}"
