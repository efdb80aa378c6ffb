#!/bin/bash
# One slice on a machine that keeps nothing: SECONDS of work, then everything that is done in OUT/results.tar.
#   slice.sh EARLIER_RESULTS OUT SECONDS PROCESSES [words for run.py]
# Results of earlier slices are read from EARLIER_RESULTS; PYTHONPATH leads to the packages. WORK holds the starts.
set -u
earlier=$1 out=$2 seconds=$3 processes=$4 here=$(cd "$(dirname "$0")" && pwd)
export PYTHONPATH=${here%/*}${PYTHONPATH:+:$PYTHONPATH} # of `shared`, which stands beside this folder
work=${WORK:-/tmp/009-work} results=${RESULTS:-/tmp/009-results}
mkdir -p "$work" "$results"
# Once per machine: what the runner has set aside since must not come back.
[ -d "$earlier" ] && [ -z "$(ls "$results")" ] && cp -r "$earlier/." "$results/"
# Lets several processes share a GPU.
command -v nvidia-cuda-mps-control > /dev/null && nvidia-cuda-mps-control -d 2> /dev/null
# What is begun is to end within the slice; what does not is ended, and its job is done again.
timeout -k 5 "$((seconds + 25))" "${PYTHON:-python3}" "$here/run.py" \
    --work "$work" --results "$results" --slice-s "$seconds" --processes "$processes" "${@:5}"
code=$?
tar -cf "$out/results.tar" -C "$results" .
tail -n 3 "$work"/worker-*.log
exit $code
