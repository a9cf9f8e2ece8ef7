#!/bin/sh
# torch.sh [THREADS [ROUNDS [TEXT]]]: a step of training beside PyTorch's nn.LSTM and nn.GRU and the `sru` package
# (torch_step.py), with the newest PyTorch, which is put into build/peers/venv (5 GB) and nowhere else.
# TORCH=system takes the system's instead (Debian: python3-torch).
set -eu
cd "$(dirname "$0")/../../.."
build=${BUILD:-build} torch=${TORCH:-newest}
case $build in /*) ;; *) build=$(pwd)/$build ;; esac
venv=$build/peers/venv
if [ "$torch" = system ]; then venv=$venv-system; fi
mkdir -p "$build/peers"
if ! [ -e "$venv/complete" ]; then
    free=$(df -Pk "$build" | awk 'NR == 2 {print int($4 / 1048576)}')
    if [ "$torch" = system ]; then
        /usr/bin/python3 -m venv --system-site-packages "$venv"
    else
        [ "$free" -ge 12 ] || { echo "$build has $free GB free; PyTorch takes 5, and 12 while it is installed" >&2; exit 1; }
        "${PYTHON:-python3}" -m venv "$venv"
        "$venv/bin/pip" install --quiet torch numpy setuptools
    fi
    "$venv/bin/pip" install --quiet --no-deps sru==2.6.0 ninja
    touch "$venv/complete"
fi
make BUILD="$build" "$build/libhalfstep.so"
# `sru` compiles its C++ kernel when it is first imported: ninja must be found, and the result stays here too.
PATH=$venv/bin:$PATH TORCH_EXTENSIONS_DIR=$venv/extensions OMP_NUM_THREADS=${1:-1} \
    exec "$venv/bin/python" -B tests/bench/peers/torch_step.py "$build/libhalfstep.so" "${1:-1}" "${2:-5}" ${3:+"$3"}
