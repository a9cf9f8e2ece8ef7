#!/bin/sh
# Once installed, programs in C and C++ build with pkg-config, dynamically and statically; uninstall leaves nothing.
set -eu
build=$1
jobs=$(nproc 2>/dev/null || echo 2)
fail() { echo "$*" >&2; exit 1; }
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

# No test library and no Python: an installation needs a compiler and make.
make --no-print-directory -j"$jobs" BUILD="$build" PYTHON=false PREFIX=/opt/hs DESTDIR="$place" install > "$place/log"
prefix=$place/opt/hs
for file in bin/halfstep include/halfstep.h lib/libhalfstep.a lib/libhalfstep.so lib/pkgconfig/halfstep.pc \
    share/man/man1/halfstep.1 share/man/man1/halfstep-train.1 share/man/man3/halfstep.3 \
    share/bash-completion/completions/halfstep share/zsh/site-functions/_halfstep \
    share/fish/vendor_completions.d/halfstep.fish; do
    [ -s "$prefix/$file" ] || fail "$file was not installed"
done
if grep -rl "$place" "$prefix/lib/pkgconfig" "$prefix/share"; then fail "DESTDIR is in an installed file"; fi
[ "$(ls "$prefix/include")" = halfstep.h ] || fail "more than one header was installed"

# The command is enough by itself, and the shared library's name is that of its version.
version=$(env -u LD_LIBRARY_PATH "$prefix/bin/halfstep" version | cut -d' ' -f2)
soname=$(readelf -d "$prefix/lib/libhalfstep.so" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
[ "$soname" = "libhalfstep.so.${version%%.*}" ] || fail "the SONAME of version $version is $soname"
[ "$(readlink "$prefix/lib/libhalfstep.so")" = "$soname" ] || fail "libhalfstep.so does not lead to $soname"
[ "$(readlink "$prefix/lib/$soname")" = "libhalfstep.so.$version" ] || fail "$soname does not lead to version $version"

# A program outside the tree. The .pc file knows no fixed place: pkg-config takes the prefix from where it lies.
make --no-print-directory BUILD="$build" "$build/locales"
locale=$(ls "$build/locales")
LOCPATH=$(cd "$build/locales" && pwd)
export LOCPATH
cp tests/embed/train.c "$place/train.c"
embed() { # NAME COMPILER... : builds in a folder of its own and runs
    name=$1
    shift
    (cd "$place" && "$@" -o "$name" && LD_LIBRARY_PATH="$prefix/lib" "./$name" "$name.safetensors" $locale) ||
        fail "the $name program failed"
    echo "a $name program trains"
}
if command -v pkg-config >/dev/null; then
    export PKG_CONFIG_PATH="$prefix/lib/pkgconfig"
    pc() { pkg-config --define-prefix "$@" halfstep; }
    [ "$(pc --modversion)" = "$version" ] || fail "halfstep.pc has version $(pc --modversion)"
    c="${CC:-cc} -std=c11 -D_GNU_SOURCE -Wall -Wextra -Wpedantic -Werror"
    cxx="${CXX:-c++} -std=c++17 -Wall -Wextra -Wpedantic -Werror"
    embed shared-C11 $c train.c $(pc --cflags --libs)
    embed static-C11 $c train.c -static $(pc --static --cflags --libs)
    embed shared-C++17 $cxx -x c++ train.c -x none $(pc --cflags --libs)
    embed static-C++17 $cxx -x c++ train.c -x none -static-pie $(pc --static --cflags --libs)
else
    echo "skipped: there is no pkg-config"
fi

make --no-print-directory BUILD="$build" PREFIX=/opt/hs DESTDIR="$place" uninstall > "$place/log"
if find "$prefix" ! -type d | grep .; then fail "uninstall left files behind"; fi
