#!/bin/sh
# deps.sh CC [TOOL...]: installs what the tests need beyond a compiler and make, with the system's package manager, and
# says so. Criterion is needed; without the other tools `make check` skips what it would do with them. With stb the
# command is built to draw.
set -eu
cc=$1
shift
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }
has() {
    case $1 in
    criterion)
        printf '#include <criterion/criterion.h>\nTest(a, b) {}\n' | $cc -x c - -o /dev/null -lcriterion 2>/dev/null
        ;;
    locales) [ -e /usr/share/i18n/locales/de_DE ] ;;
    stb) printf '#include <stb/stb_image_write.h>\n' | $cc -E -x c - >/dev/null 2>&1 ;;
    *) command -v "$1" >/dev/null ;;
    esac
}

# The package of a tool, where its name is another one.
package() {
    case $manager:$1 in
    apt-get:criterion) echo libcriterion-dev ;;
    apt-get:man | dnf:man | pacman:man) echo man-db ;;
    dnf:criterion) echo criterion-devel ;;
    dnf:pkg-config) echo pkgconf-pkg-config ;;
    apt-get:stb) echo libstb-dev ;;
    dnf:stb) echo stb-devel ;;
    dnf:locales) echo glibc-locale-source ;;
    pacman:pkg-config | brew:pkg-config) echo pkgconf ;;
    *) echo "$1" ;;
    esac
}
install() {
    case $manager in
    apt-get)
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
        ;;
    dnf) as_root dnf install -y -q "$@" ;;
    pacman) as_root pacman -S --noconfirm --needed "$@" ;;
    brew) brew install "$@" ;;
    esac
}

missing=
for tool in criterion pkg-config valgrind man mandoc locales stb "$@"; do has "$tool" || missing="$missing $tool"; done
if [ -z "$missing" ]; then
    echo "deps: nothing is missing"
    exit 0
fi
for manager in apt-get dnf pacman brew none; do command -v $manager >/dev/null && break; done
if [ $manager = none ]; then
    has criterion && exit 0
    echo "deps: no package manager that is known here; install https://github.com/Snaipe/Criterion by hand" >&2
    exit 1
fi
[ $manager != apt-get ] || as_root apt-get update -qq
for tool in $missing; do
    echo "deps: $tool is missing; installing $(package "$tool")"
    install "$(package "$tool")" && has "$tool" && continue
    [ "$tool" != criterion ] || { echo "deps: Criterion could not be installed, or $cc does not find it" >&2; exit 1; }
    echo "deps: $tool could not be installed; what needs it is skipped"
done
