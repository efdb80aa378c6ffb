#!/bin/bash
# Prepares a bare GPU host: Python 3.12 with torch and transformers, no network.
#   source host.sh PARTS FOLDER
# PARTS holds what `pack_offline.py --model qwen2.5-coder-1.5b --extras "train lora env" --also …` wrote (site.tar.gz,
# weights.000, …) and tasks.tar.gz of pool.py. Does what is not done yet; then PYTHON, PYTHONPATH and TASKS are set.
parts=$1 folder=$2
mkdir -p "$folder/site" "$folder/tasks"
[ -d "$folder/site/composer_replication" ] || tar -xzf "$parts/site.tar.gz" -C "$folder/site"
[ -n "$(ls "$folder/tasks")" ] || tar -xzf "$parts/tasks.tar.gz" -C "$folder/tasks"
if [ ! -x "$folder/venv/bin/python" ]; then
    # Sandboxes copy the interpreter that they are started by; it has to know the host's packages and ours by name.
    base=$(python3 -c 'import pathlib, torch; print(pathlib.Path(torch.__file__).parents[1])')
    python3 -m venv --system-site-packages --without-pip "$folder/venv"
    printf '%s\n' "$folder/site" "$base" > "$(echo "$folder"/venv/lib/python3*/site-packages)/packed.pth"
fi
export PYTHON=$folder/venv/bin/python PYTHONPATH=$folder/site TASKS=$folder/tasks
if ls "$parts"/weights.* > /dev/null 2>&1 && [ ! -f "$folder/fetched" ]; then
    cat "$parts"/weights.* > "$folder/model.gguf"
    "$PYTHON" -m composer_replication model fetch qwen2.5-coder-1.5b --gguf "$folder/model.gguf" && touch "$folder/fetched"
    rm -f "$folder/model.gguf"
fi
