SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
PYTHON ?= python3
BIN := .venv/bin
# Torch is pinned, so that machines without a GPU can get its small CPU build.
# Python compiles what it first imports, a tenth of what is installed; pip would compile all of it, on one core.
INSTALL := $(BIN)/pip install --no-input --no-compile --progress-bar off --constraint constraints.txt
unexport PYTHONDONTWRITEBYTECODE
# Pip names dozens of packages: one line that is overwritten on a terminal, else a line for every twenty.
COLLECTED := { found=0; while read -r what name rest; do \
	case $$what in \
	ERROR:) echo "$$what $$name $$rest" ;; \
	Collecting) found=$$((found + 1)); \
		if test -t 1; then printf '\r\033[K  %d packages: %s' $$found "$$name"; \
		elif test $$((found % 20)) = 0; then echo "  $$found packages so far"; fi ;; \
	esac; done; \
	if test -t 1; then printf '\r\033[K'; fi; }

export HF_HUB_OFFLINE ?= 1
export HF_HUB_DISABLE_TELEMETRY ?= 1
export TOKENIZERS_PARALLELISM ?= false

.PHONY: setup quickstart test docs browser engines engines-tinker engines-verl engines-diloco engines-monarch viewer core faults benchmarks mutants audit audit-dependencies lint types structure evidence experiment-000 clean

# All that a script or the command needs: `source .venv/bin/activate` afterwards.
setup: .venv/train-installed
	@echo "Done: recompose lies in $(BIN). Next: source $(BIN)/activate, then recompose doctor"

quickstart: .venv/train-installed
	$(BIN)/recompose quickstart

# Three workers for two cores: tests of sandboxes, servers and faults wait more than they compute.
test: .venv/dev-installed .venv-verifiers/installed
	$(BIN)/python -m pytest -n 3 --dist worksteal

# What needs no torch, with any Python that pyproject.toml names: `make core PYTHON=python3.13`.
CORE_TESTS := adp aider atif blame claude_code cline codex config copilot_cli dialects gemini_cli hints http_answers \
	ingestion judge leakage llm llm_edges llm_ledger mini_swe_agent openai_messages openhands pair_sides pairs pairs_calibrate \
	pairs_canonical pairs_tiers platforms provider_words quorum records redaction replay roster runs sites store \
	swe_agent syntax
core:
	$(PYTHON) -m venv .venv-core
	.venv-core/bin/pip install --quiet --no-input . hypothesis pytest pytest-timeout
	.venv-core/bin/python -m pytest $(CORE_TESTS:%=tests/unit/test_%.py) tests/property/test_canonical.py tests/property/test_vote.py \
		--deselect tests/unit/test_pair_sides.py::test_training_reads_the_sides_and_not_the_actors_own_style \
		--deselect tests/unit/test_leakage.py::test_the_embedded_model_can_read_the_shams_of_its_own_errors

# All pages and the API reference, to read without a network: build/docs/README.html.
docs: .venv/dev-installed
	$(BIN)/python -m sphinx -q -W --keep-going -c docs . build/docs

# The viewer's page in a real Chromium.
browser: .venv/browser-installed
	@command -v chromium chromium-browser google-chrome >/dev/null || { echo "no Chromium: apt-get install -y chromium"; exit 1; }
	$(BIN)/python -m pytest tests/browser

# Each engine of docs/engines.md at small size on CPU, in an environment of its own where it conflicts with ours.
engines: engines-tinker engines-verl engines-diloco engines-monarch

engines-tinker: .venv/tinker-installed .venv-tinker/installed
	$(BIN)/python -m pytest tests/engines/test_tinker*.py

engines-verl: .venv-verl/installed
	.venv-verl/bin/python -m pytest tests/engines/test_verl*.py

engines-diloco: .venv/diloco-installed
	$(BIN)/python -m pytest tests/engines/test_diloco*.py

engines-monarch: .venv/diloco-installed
	$(BIN)/python -m pytest tests/engines/test_monarch*.py

# The page that the package serves, from its sources. The same sources give the same bytes.
viewer:
	@command -v npm >/dev/null || { echo "no npm: apt-get install -y nodejs npm"; exit 1; }
	npm ci --prefix viewer --ignore-scripts --no-audit --no-fund
	npm run build --prefix viewer

# A million fuzzed lines and the full figures on money; `make test` does a small part of each.
faults: .venv/dev-installed
	RECOMPOSE_FUZZ_LINES=1000000 RECOMPOSE_FAULTS=full $(BIN)/python -m pytest tests/faults --timeout 3600 -n 2 --dist worksteal

benchmarks: .venv/dev-installed
	$(BIN)/python benchmarks/ingestion.py --peers --json benchmarks/results/ingestion.json
	$(BIN)/python benchmarks/llm_client.py --peers --json benchmarks/results/llm_client.json
	$(BIN)/python benchmarks/redaction.py tests/samples/claude_code/*.zst
	$(BIN)/python benchmarks/scale.py --json benchmarks/results/scale.json
	$(BIN)/python benchmarks/sandbox.py --rounds 100 --json benchmarks/results/sandbox.json
	$(BIN)/python benchmarks/install.py --json benchmarks/results/install.json

# 300 random small mistakes in each of three packages: which share do the tests notice? Goes on where it
# was, unless the package or the seed is another: then it begins again.
mutants: .venv/dev-installed
	set -e; for sample in llm:1 pairs:0 losses:0; do package=$${sample%:*}; \
		$(BIN)/python benchmarks/mutants.py $$package --seed $${sample#*:} \
		--json benchmarks/results/mutants_$$package.json --reach .venv/reach_$$package.jsonl; done

# bandit, and secrets in tracked files.
audit: .venv/dev-installed
	$(BIN)/python -m tests.structure.audit

# Known vulnerabilities of what `make` installs; asks the public package index.
audit-dependencies: .venv/dev-installed
	$(BIN)/pip install --quiet --no-input pip-audit
	$(BIN)/pip-audit --strict --no-deps --disable-pip --requirement constraints.txt

lint: .venv/dev-installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/dev-installed
	$(BIN)/pyright

structure: .venv/dev-installed
	$(BIN)/python -m pytest tests/structure
	$(BIN)/python -m tests.structure.layers

# Every table, figure and page of the experiments, from raw files; trains nothing. One whose runs are not all there says
# so, and is named at the end.
evidence: .venv/dev-installed
	@left=; for script in experiments/*/rebuild.py; do \
		folder=$${script%/rebuild.py}; echo "$$folder"; \
		$(BIN)/recompose experiment rebuild $$folder > /dev/null || left="$$left $$folder"; \
	done; $(BIN)/python experiments/evidence.py; \
	test -z "$$left" || { echo "not rebuilt:$$left"; exit 1; }

experiment-000: .venv/train-installed
	$(BIN)/python experiments/000-quickstart/run.py

.venv/train-installed: pyproject.toml constraints.txt
	@echo "Setting up .venv (once, about a minute):"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
# The pip that Python brings along may take twice as long to choose versions.
	@$(INSTALL) --upgrade pip 2>&1 | $(COLLECTED)
	@$(INSTALL) torch==2.13.0 --editable '.[train,viewer]' 2>&1 | $(COLLECTED)
	@touch $@

.venv/dev-installed: .venv/train-installed
	@$(INSTALL) --editable '.[dev]' 2>&1 | $(COLLECTED)
# Tests start many processes. Some packages hold files of other Pythons, which do not compile.
	@$(BIN)/python -m compileall -qq -j 0 .venv/lib || true
	@touch $@

.venv/browser-installed: .venv/dev-installed
	@$(INSTALL) --editable '.[browser]' 2>&1 | $(COLLECTED)
	@touch $@

# torchft and torchmonarch conflict with nothing of ours.
.venv/diloco-installed: .venv/dev-installed
	@$(INSTALL) --editable '.[diloco,monarch]' 2>&1 | $(COLLECTED)
	@touch $@

# verifiers and openenv want different versions of mcp, so verifiers gets an environment of its own.
.venv-verifiers/installed: pyproject.toml constraints-verifiers.txt
	@echo "Setting up .venv-verifiers (once, about two minutes):"
	@$(PYTHON) -m venv .venv-verifiers
	@.venv-verifiers/bin/pip install --no-input --progress-bar off --constraint constraints-verifiers.txt \
		--editable '.[verifiers]' 2>&1 | $(COLLECTED)
	@touch $@

.venv/tinker-installed: .venv/dev-installed
	@$(INSTALL) --editable '.[tinker]' 2>&1 | $(COLLECTED)
	@touch $@

# SkyRL's server wants other versions of transformers; its client is in .venv. By its metadata it wants Python 3.12 too,
# whose torch brings 5 GB of CUDA. All that stands against 3.11 is pydantic, which wants the backport of TypedDict there.
.venv-tinker/installed: engines/tinker/requirements.txt
	@echo "Setting up .venv-tinker (once, about two minutes):"
	@$(PYTHON) -m venv .venv-tinker
	@.venv-tinker/bin/pip install --no-input --progress-bar off --upgrade pip 2>&1 | $(COLLECTED)
	@.venv-tinker/bin/pip install --no-input --no-compile --progress-bar off --requirement $< 2>&1 | $(COLLECTED)
	@.venv-tinker/bin/pip install --no-input --no-compile --progress-bar off --no-deps --ignore-requires-python \
		skyrl==0.4.0 2>&1 | $(COLLECTED)
	@echo 'import typing, typing_extensions; typing.TypedDict = typing_extensions.TypedDict' \
		> $$(echo .venv-tinker/lib/python3*/site-packages)/typed_dict.pth
	@touch $@

# verl wants transformers of before 5.11, and TRL that of 5.17 and later.
.venv-verl/installed: pyproject.toml engines/verl/requirements.txt
	@echo "Setting up .venv-verl (once, about two minutes):"
	@$(PYTHON) -m venv .venv-verl
	@.venv-verl/bin/pip install --no-input --progress-bar off --upgrade pip 2>&1 | $(COLLECTED)
	@.venv-verl/bin/pip install --no-input --no-compile --progress-bar off \
		--requirement engines/verl/requirements.txt --editable '.[verl]' 2>&1 | $(COLLECTED)
	@touch $@

clean:
	rm -rf .venv .venv-core .venv-verifiers .venv-tinker .venv-verl runs
