# make demo and make test are the two commands of the README; each sets up everything that it needs.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
PYTHON := $(VENV)/bin/python
LISTEN ?= :9836
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help demo run test check lint types imports unit e2e gpu-check accuracy ledger-live docs proto lock screenshot clean

help: ## what there is
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /\1\t/' | expand -t 14

demo: $(VENV)/.runtime ## the exporter over a simulated node of 8 GPUs: no GPU, no Kubernetes
	@$(PYTHON) -m exporter demo --listen "$(LISTEN)"

run: $(VENV)/.runtime ## the exporter on this node
	@$(PYTHON) -m exporter serve --listen "$(LISTEN)"

test: $(VENV)/.development $(VENV)/.programs check ## everything that CI runs

check: lint types imports unit e2e ## lint, types, rules of the house, all tests

lint: $(VENV)/.development
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

types: $(VENV)/.development
	$(VENV)/bin/mypy

imports: $(VENV)/.development
	$(VENV)/bin/lint-imports --no-cache

unit: $(VENV)/.development ## pure rooms, sources against their stand-ins, the line as a whole, artifacts
	$(VENV)/bin/pytest tests --ignore=tests/e2e

e2e: $(VENV)/.development $(VENV)/.programs ## the process itself over the simulated node
	$(VENV)/bin/pytest tests/e2e

gpu-check: $(VENV)/.development ## on a machine with an NVIDIA GPU: the real driver against a known load (5 minutes)
	$(VENV)/bin/pytest tests/gpu -m gpu -p no:cacheprovider
	@echo "What it showed: build/gpu-check.md"

accuracy: $(VENV)/.development $(VENV)/.programs ## how far off counters and snapshots are (5 minutes; bench/README.md)
	$(PYTHON) -m bench.accuracy

ledger-live: $(VENV)/.development $(VENV)/.programs ## GPU-seconds that add up in a live Prometheus (11 minutes; bench/README.md)
	LEDGER_LIVE_SECONDS=600 $(VENV)/bin/pytest -s tests/e2e/test_ledger_in_prometheus.py -k live

docs: $(VENV)/.development ## docs/metrics.md and docs/configuration.md from the code
	$(PYTHON) scripts/generate_docs.py

proto: $(VENV)/.development ## the gRPC stubs from proto/
	$(PYTHON) scripts/generate_proto.py

screenshot: $(VENV)/.development $(VENV)/.programs ## docs/images/ from the demo
	$(PYTHON) scripts/take_screenshots.py

lock: $(VENV)/.development ## the pinned requirements, from pyproject.toml
	$(VENV)/bin/uv pip compile -q --universal --generate-hashes --no-header --no-annotate pyproject.toml -o requirements.lock
	$(VENV)/bin/uv pip compile -q --universal --generate-hashes --no-header --no-annotate --group dev -c requirements.lock pyproject.toml -o requirements-dev.lock
	echo 'ziglang>=0.13' | $(VENV)/bin/uv pip compile -q --universal --generate-hashes --no-header --no-annotate - -o requirements-zig.lock

clean: ## all that was made here
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist

$(VENV)/bin/python:
	scripts/ensure_python.sh $(VENV)

$(VENV)/.runtime: requirements.lock requirements-zig.lock | $(VENV)/bin/python
	@echo "Setting up $(VENV) (once)"
	$(PYTHON) -m pip install --quiet --require-hashes -r requirements.lock
	@command -v cc gcc clang >/dev/null || $(PYTHON) -m pip install --quiet --require-hashes -r requirements-zig.lock
	@touch $@

$(VENV)/.development: requirements-dev.lock $(VENV)/.runtime
	$(PYTHON) -m pip install --quiet --require-hashes -r requirements-dev.lock
	@touch $@

$(VENV)/.programs: scripts/ensure_programs.sh | $(VENV)/bin/python
	scripts/ensure_programs.sh
	@touch $@
