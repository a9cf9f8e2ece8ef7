#!/bin/sh
# deps.sh CC: installs what the tests need beyond a compiler and make, with the system's package manager, and says so.
set -eu
has_criterion() { printf '#include <criterion/criterion.h>\nTest(a, b) {}\n' | $1 -x c - -o /dev/null -lcriterion 2>/dev/null; }
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

if has_criterion "$1"; then
    echo "deps: nothing is missing"
    exit 0
fi
echo "deps: Criterion, which the tests are written with, is missing; installing it"
if command -v apt-get >/dev/null; then
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq libcriterion-dev >/dev/null
elif command -v dnf >/dev/null; then as_root dnf install -y -q criterion-devel
elif command -v pacman >/dev/null; then as_root pacman -S --noconfirm --needed criterion
elif command -v brew >/dev/null; then brew install criterion
else
    echo "deps: no package manager that is known here; install Criterion (https://github.com/Snaipe/Criterion) by hand" >&2
    exit 1
fi
has_criterion "$1" || { echo "deps: Criterion was installed, but $1 does not find it" >&2; exit 1; }
echo "deps: installed Criterion"
