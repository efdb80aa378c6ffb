#!/bin/bash
# Prepares a bare GPU host: Python 3.12 with torch and transformers, no network.
#   source host.sh PARTS FOLDER MODEL
# PARTS holds what `pack_offline.py --model MODEL` wrote: site.tar.gz and weights.000, …, each of them here or in a
# folder of its own. Does what is not done yet; then PYTHON and PYTHONPATH are set, for slice.sh.
parts=$1 folder=$2 model=$3 root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
mkdir -p "$folder/site"
[ -d "$folder/site/trl" ] || tar -xzf "$(find "$parts" -name site.tar.gz)" -C "$folder/site"
if [ ! -x "$folder/venv/bin/python" ]; then
    # Sandboxes copy the interpreter that they are started by; it has to know the host's packages and ours by name.
    base=$(python3 -c 'import pathlib, torch; print(pathlib.Path(torch.__file__).parents[1])')
    python3 -m venv --system-site-packages --without-pip "$folder/venv"
    printf '%s\n' "$folder/site" "$base" > "$(echo "$folder"/venv/lib/python3*/site-packages)/packed.pth"
fi
export PYTHON=$folder/venv/bin/python PYTHONPATH=$root/src:$folder/site HF_HUB_OFFLINE=1
if [ ! -f "$folder/fetched-$model" ]; then
    # Pieces in the order of their own names, whatever the folders are called.
    find "$parts" -name 'weights.*' -printf '%f %p\n' | sort | cut -d' ' -f2- | xargs cat > "$folder/model.gguf"
    "$PYTHON" -m composer_replication model fetch "$model" --gguf "$folder/model.gguf" && touch "$folder/fetched-$model"
    rm -f "$folder/model.gguf"
fi
