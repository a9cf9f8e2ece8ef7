#!/bin/sh
# valgrind finds no error and no leak in training, saving, resuming, evaluating, generating and drawing.
set -eu
build=$1
if ! command -v valgrind >/dev/null; then
    echo "skipped: there is no valgrind"
    exit 0
fi
make --no-print-directory BUILD="$build" "$build/halfstep"
# It knows AVX2 but not AVX-512.
if "$build/halfstep" info --isa avx2 >/dev/null 2>&1; then HALFSTEP_ISA=avx2; else HALFSTEP_ISA=portable; fi
export HALFSTEP_ISA
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
head -c 3000 README.md > "$place/text.txt"
run() {
    echo "halfstep $1, $HALFSTEP_ISA kernels"
    valgrind -q --error-exitcode=99 --leak-check=full --show-leak-kinds=all --errors-for-leak-kinds=all \
        "$build/halfstep" "$@" --threads 2 > "$place/out" 2> "$place/err" || { cat "$place/err" >&2; exit 1; }
}
model="--layers 2 --hidden 24 --batch 3 --length 9 --dropout 0.1"
run train "$place/text.txt" -o "$place/run" --steps 6 --save-every 3 $model
cp "$place/run/previous.safetensors" "$place/run/last.safetensors" # as if it had been killed after step 3
run train "$place/text.txt" -o "$place/run" --resume
run eval "$place/run" "$place/text.txt" --reset 50
run generate "$place/run" --prompt 'The ' --tokens 40 --top-k 20 --top-p 0.9
run info "$place/run"
[ ! -e "$place/run/loss.png" ] || run plot "$place/run" "$place/run/log.jsonl" -o "$place/two.png"
