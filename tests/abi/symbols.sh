#!/bin/sh
# symbols.sh LIBRARY: the names that a shared library exports, sorted.
set -eu
nm -D --defined-only "$1" | awk '{print $3}' | LC_ALL=C sort
