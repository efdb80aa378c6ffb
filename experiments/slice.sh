#!/bin/bash
# One slice of several experiments, in order, on a machine that keeps nothing: SECONDS of work, then everything that is
# done in OUT/results.tar, as EXPERIMENT/results/….
#   slice.sh EARLIER OUT SECONDS PROCESSES EXPERIMENT...
# OUT/load.jsonl tells how busy the machine was.
# Results of earlier slices are read from EARLIER/EXPERIMENT/results. PYTHONPATH leads to the packages. WORK and RESULTS
# are kept between the slices of one machine. ONLY may hold patterns of job names, as '012-competitors/half/star-*'.
# STATE may hold state.000, … of unfinished runs from another machine; with CARRY=1 OUT gets those of this one.
set -u
earlier=$1 out=$2 seconds=$3 processes=$4 here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out"
export PYTHONPATH=$here${PYTHONPATH:+:$PYTHONPATH}
work=${WORK:-/tmp/slice-work} results=${RESULTS:-/tmp/slice-results}
read -ra only <<< "${ONLY:-*}"
folders=()
for name in "${@:5}"; do
    folders+=("$here/$name")
    # Once per machine: what the runner has set aside since must not come back.
    if [ ! -d "$results/$name" ]; then
        mkdir -p "$results/$name/results"
        [ -d "$earlier/$name/results" ] && cp -r "$earlier/$name/results/." "$results/$name/results/"
    fi
done
if [ ! -d "$work" ]; then
    mkdir -p "$work"
    [ -f "${STATE:-}/state.000" ] && cat "$STATE"/state.* | tar -xf - -C "$work"
fi
# Lets several processes share a GPU.
command -v nvidia-cuda-mps-control > /dev/null && nvidia-cuda-mps-control -d 2> /dev/null
# What is begun is to end within the slice; what does not is ended, and its job is done again.
timeout -k 5 "$((seconds + 25))" "${PYTHON:-python3}" -m shared.runner.run "${folders[@]}" \
    --work "$work" --results "$results" --slice-s "$seconds" --processes "$processes" --only "${only[@]}"
code=$?
tar -cf "$out/results.tar" -C "$results" .
cat "$work"/*/load.jsonl > "$out/load.jsonl" 2> /dev/null
if [ -n "${CARRY:-}" ]; then
    "${PYTHON:-python3}" -m shared.runner.carry "$out" "${folders[@]}" --work "$work" --results "$results"
fi
tail -n 3 "$work"/*/worker-*.log
exit $code
