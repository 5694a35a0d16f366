# Every target makes what it needs in .venv; nothing is installed outside this folder.
.DEFAULT_GOAL := help
.PHONY: help setup demo run check test unit control-plane chaos chaos-real torture fuzz lambda dist image release docs bench bench-packing bench-consolidation bench-launch pictures reference audit lock clean
.DELETE_ON_ERROR:

ARGS ?=
PYTEST_ARGS ?=
SECONDS ?= 600
SEEDS ?= 20000
# States of all scenes together.
STATES ?= 5100000
# Times the comparisons with the oracle that a push makes.
ORACLE ?= 100
DATA ?=

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
LIGHT := $(VENV)/.light
LOCKER := .venv-lock
UV := uv==0.13.7
PIP := -m pip --disable-pip-version-check --no-input --quiet
CODE = $(wildcard src tests bench scripts)

# Prints the newest Python that runs, is 3.11 or later and can make a venv.
define find_python
for p in python3.13 python3.12 python3.11 python3; do \
  $$p -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 \
    && { command -v $$p; break; }; \
done
endef
# Makes .venv where there is none that works.
define make_venv
$(BIN)/python -m pip --version >/dev/null 2>&1 || { \
  python=$$($(find_python)); \
  [ -n "$$python" ] || { echo "$(no_python)" >&2; exit 1; }; \
  echo "Making $(VENV) with $$python"; \
  "$$python" -m venv --clear $(VENV); }
endef
no_python := Ebbtide needs Python 3.11 or later with the venv module: install one and run make again.

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## Make .venv with the locked libraries and Ebbtide itself

# The demo alone needs a tenth of what the tests do. The lock names every library, so nothing is resolved, and Python
# compiles what is imported: both together take half of the time.
$(LIGHT): requirements-demo.lock pyproject.toml
	@set -e; began=$$(date +%s); \
	$(make_venv); \
	echo "Installing what the demo needs into $(VENV): about 80 MB"; \
	$(BIN)/python -m pip --disable-pip-version-check --no-input install --no-deps --no-compile --require-hashes \
	  -r requirements-demo.lock; \
	$(BIN)/python $(PIP) install --no-deps --no-build-isolation -e .; \
	echo "Installed in $$(( $$(date +%s) - began )) s: $$(du -sm $(VENV) | cut -f1) MB"
	@touch $@

$(READY): requirements.lock pyproject.toml
	@$(make_venv)
	@echo "Installing the locked libraries into $(VENV)"
	@$(BIN)/python $(PIP) install --require-hashes -r requirements.lock
	@$(BIN)/python $(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

demo: $(if $(wildcard $(READY)),$(READY),$(LIGHT)) ## Show a small simulated cluster being scaled (ARGS="...")
	@$(BIN)/ebbtide demo $(ARGS)

run: $(READY) ## Run the autoscaler (ARGS="...")
	@$(BIN)/ebbtide run $(ARGS)

check: $(READY) ## Lint, format, types, import rules and words; no tests
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy $(CODE)
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m scripts.voice

test: check ## All that a change must pass: check, every test, coverage (PYTEST_ARGS="...")
	$(BIN)/python -m tests.lanes $(PYTEST_ARGS)

unit: $(READY) ## The unit tests alone, in two halves at once, with coverage of core and model
	$(BIN)/python -m tests.lanes --unit $(PYTEST_ARGS)

control-plane: $(READY) ## Build a Kubernetes control plane and Helm for the tests, once, into a cache outside this folder
	$(BIN)/python -m tests.servers.control_plane

chaos: $(READY) ## Kill runners and restart real databases under them (SECONDS=600)
	$(BIN)/python -m tests.chaos --seconds $(SECONDS)

chaos-real: SECONDS = 1800
chaos-real: $(READY) ## Kill and freeze runners on a real cluster behind a bad network (SECONDS=1800, ARGS="--store dynamodb")
	$(BIN)/python -m tests.chaos_real --seconds $(SECONDS) $(ARGS)

torture: $(READY) ## Explore millions of states, run the swarm and the oracle, plant every bug, judge 300 mutants (two and a half hours on 2 cores; SEEDS=20000)
	$(BIN)/python -m tests.torture --states $(STATES) --seeds $(SEEDS) --oracle $(ORACLE)

fuzz: SECONDS = 60
fuzz: $(READY) ## Fuzz every parser of outside data (SECONDS=60 for each, ARGS="TARGET ...")
	@$(BIN)/python $(PIP) install --require-hashes --upgrade --target build/fuzzer -r requirements-fuzz.lock
	PYTHONPATH=build/fuzzer $(BIN)/python -m tests.fuzz --seconds $(SECONDS) $(ARGS)

lambda: $(READY) ## Build build/ebbtide-lambda.zip (CONFIG=ebbtide.yaml, PYTHON_VERSION=3.13)
	@CONFIG="$(CONFIG)" bash scripts/build_lambda.sh

dist: $(if $(wildcard $(READY)),$(READY),$(LIGHT)) ## Build wheel and sdist into dist/, the same bytes each time, with SHA256SUMS
	@rm -rf dist
	@$(BIN)/python -m hatchling build -d dist >/dev/null 2>&1 || $(BIN)/python -m hatchling build -d dist
	@cd dist && sha256sum ebbtide-* > SHA256SUMS && cat SHA256SUMS

image: dist ## Build build/image, an OCI image layout, without a daemon or a registry
	@$(BIN)/python -m scripts.build_image dist/ebbtide-*.whl build

release: $(READY) ## Build wheel, image, chart, notes, SBOM and checksums in build/release; ARGS=--tag tags this commit
	@$(BIN)/python -m scripts.release $(ARGS)

docs: $(if $(wildcard $(READY)),$(READY),$(LIGHT)) ## Build the docs as a site in build/site; a link that leads nowhere is an error
	@rm -rf build/pages && mkdir -p build/pages
	@cp --parents -r *.md docs deploy/gateways deploy/helm/ebbtide/README.md build/pages
	@$(BIN)/python $(PIP) install --require-hashes --upgrade --target build/docs-tools -r requirements-docs.lock
	@PYTHONPATH=build/docs-tools NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

bench: $(READY) ## Run every bench/bench_*.py (ARGS="...")
	@set -e; for name in $(sort $(basename $(notdir $(wildcard bench/bench_*.py)))); do \
	  echo "== $$name"; $(BIN)/python -m bench.$$name $(ARGS); done

bench-packing: $(READY) ## Compare the packing planner with two baselines (DATA=folder of traces and prices)
	$(BIN)/python -m bench.bench_packing $(if $(DATA),--data $(DATA)) $(ARGS)

bench-consolidation: $(READY) ## Consolidate a large half-empty cluster, next to Karpenter's way (DATA=folder)
	$(BIN)/python -m bench.bench_consolidation $(if $(DATA),--data $(DATA)) $(ARGS)

bench-launch: $(READY) ## What a tick would launch for many pending pods, next to first-fit (DATA=folder)
	$(BIN)/python -m bench.bench_launch $(if $(DATA),--data $(DATA)) $(ARGS)

pictures: $(READY) ## Draw the pictures of the README and the walk-through from a real run
	$(BIN)/python scripts/draw_demo.py docs/demo.svg
	$(BIN)/python -m scripts.take_pictures docs/pictures

reference: $(READY) ## Write docs/reference and the table of keys from the code
	$(BIN)/python -m scripts.make_reference docs/reference
	$(BIN)/python -m scripts.state_diagrams docs/state-machines.md
	$(BIN)/python -m scripts.chart_reference
	$(BIN)/python -m scripts.plain_cloudformation
	$(BIN)/python -m ebbtide.config.reference docs/configuration.md

audit: $(READY) ## Write build/sbom.json and ask for known holes in the locked libraries (needs the advisory service)
	@mkdir -p build
	$(BIN)/cyclonedx-py requirements requirements.lock --output-file build/sbom.json
	$(BIN)/pip-audit --disable-pip --require-hashes -r requirements.lock

lock: ## Resolve pyproject.toml again into the lock files
	@python=$$($(find_python)); \
	[ -n "$$python" ] || { echo "$(no_python)" >&2; exit 1; }; \
	"$$python" -m venv $(LOCKER)
	@$(LOCKER)/bin/python $(PIP) install $(UV)
	@$(LOCKER)/bin/uv pip compile --quiet --universal --python-version 3.11 --all-extras --group dev \
	  --generate-hashes --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
	  --upgrade --output-file requirements.lock pyproject.toml
	@$(LOCKER)/bin/uv pip compile --quiet --universal --python-version 3.11 --extra api --group demo \
	  --generate-hashes --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
	  --upgrade --output-file requirements-demo.lock pyproject.toml
	@$(LOCKER)/bin/uv pip compile --quiet --universal --python-version 3.11 --extra all --no-annotate \
	  --generate-hashes --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
	  --upgrade --output-file requirements-image.lock pyproject.toml
	@$(LOCKER)/bin/uv pip compile --quiet --universal --python-version 3.11 --group docs --no-annotate \
	  --generate-hashes --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
	  --upgrade --output-file requirements-docs.lock
	@$(LOCKER)/bin/uv pip compile --quiet --universal --python-version 3.11 --group fuzz --generate-hashes \
	  --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" --upgrade \
	  --output-file requirements-fuzz.lock

clean: ## Remove .venv and everything that a run leaves behind
	rm -rf $(VENV) $(LOCKER) .coverage .mypy_cache .pytest_cache .ruff_cache .hypothesis \
	  .import_linter_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
