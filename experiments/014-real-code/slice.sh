#!/bin/bash
# One slice on a machine that keeps nothing: SECONDS of work, then in OUT everything that is done and what goes on.
#   slice.sh EARLIER OUT SECONDS PROCESSES [words for run.py]
# EARLIER holds results.tar and state.000, state.001, … of the slice before, or nothing. TASKS holds the tasks,
# PYTHONPATH leads to the packages. OUT gets results.tar and, with CARRY=1, the state of unfinished runs in pieces of
# 16 MiB: 53 MiB for each of them. Without it they stay on this machine, for the next call on it.
set -u
earlier=$1 out=$2 seconds=$3 processes=$4 here=$(cd "$(dirname "$0")" && pwd)
export PYTHONPATH=${here%/*}${PYTHONPATH:+:$PYTHONPATH} # of `shared`, which stands beside this folder
work=${WORK:-/tmp/014-work} results=${RESULTS:-/tmp/014-results} plan=${PLAN:-$here/plan.toml}
mkdir -p "$work" "$results"
# Once per machine: what the runner has set aside since must not come back.
if [ -z "$(ls "$results")" ]; then
    [ -f "$earlier/results.tar" ] && tar -xf "$earlier/results.tar" -C "$results"
    [ -f "$earlier/state.000" ] && cat "$earlier"/state.* | tar -xf - -C "$work"
fi
# Lets several processes share a GPU.
command -v nvidia-cuda-mps-control > /dev/null && nvidia-cuda-mps-control -d 2> /dev/null
# What is begun is to end within the slice; what does not is ended, and its segment is done again.
timeout -k 5 "$((seconds + 25))" "${PYTHON:-python3}" "$here/run.py" --plan "$plan" --tasks "$TASKS" \
    --work "$work" --results "$results" --slice-s "$seconds" --processes "$processes" "${@:5}"
code=$?
tar -cf "$out/results.tar" -C "$results" .
[ -n "${CARRY:-}" ] && "${PYTHON:-python3}" "$here/carry.py" "$work" "$results" "$plan" "$out"
tail -n 3 "$work"/worker-*.log
exit $code
