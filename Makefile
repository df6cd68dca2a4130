# The one door: everything works with plain python3 and make, and offline once installed.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt

# The tests start hundreds of processes, which need not compile the same modules each.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install install-dev demo test test-kills chaos soak test-cluster guarantees tables bench bench-full bench-compare check format clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## /  make \1\t/' | expand -t 20

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) --editable .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(PIP) --editable '.[dev]'
	@touch $@

install: $(VENV)/.installed ## leave the syncd command in .venv/bin

install-dev: $(VENV)/.installed-dev ## the same, with all that the tests and checks need

demo: install ## a simulated cluster, mirrored into SQLite, in half a minute (ARGS="--for 5m")
	@$(BIN)/syncd demo $(ARGS)

test: install-dev ## every test, on SQLite and on a real PostgreSQL
	@$(BIN)/python -m pytest -n 4 --dist worksteal $(ARGS)

test-kills: install-dev ## kill -9 in the middle of everything, ten times each
	@SYNCD_TEST_KILLS=10 $(BIN)/python -m pytest -n 2 --dist worksteal tests/conformance/test_kills.py $(ARGS)

chaos: install-dev ## random faults on three sides at once, from a seed (SEEDS=200, or SEED=7 alone)
	@$(BIN)/python -m tests.chaos $(if $(SEED),--seed $(SEED)) $(if $(SEEDS),--seeds $(SEEDS)) $(ARGS)

soak: install-dev ## churn, faults and reconciles for a while, and what grows meanwhile (MINUTES=30)
	@$(BIN)/python -m tests.soak --minutes $(or $(MINUTES),30) $(ARGS)

test-cluster: install-dev ## the scenarios that any cluster can show, against yours (KUBECONFIG=… CONTEXT=…)
	@SYNCD_TEST_KUBECONFIG="$(or $(KUBECONFIG),$(HOME)/.kube/config)" SYNCD_TEST_CONTEXT="$(CONTEXT)" \
		$(BIN)/python -m pytest -m cluster --timeout 600 tests/conformance $(ARGS)

guarantees: install-dev ## write docs/guarantees.md from the conformance suite
	@$(BIN)/python -m tests.conformance.guarantees

tables: install-dev ## write docs/tables/ from the catalogue of views
	@$(BIN)/python -m tests.tables

# A real cluster only where the command line names it: the environment of many a shell does too.
bench: install-dev ## what syncd costs, in ratios to floors (ARGS="--pods 2000"); on a real cluster: KUBECONFIG=… CONTEXT=…
	@$(BIN)/python -m bench.run $(if $(findstring command,$(origin KUBECONFIG)),\
		--kubeconfig "$(KUBECONFIG)" --context "$(CONTEXT)") $(ARGS)

bench-full: install-dev ## more sizes, rates and shapes, in about an hour (ARGS="churn idle")
	@$(BIN)/python -m bench.full $(ARGS)

bench-compare: install-dev ## two results of the two above, figure by figure (A=before.json B=after.json)
	@$(BIN)/python -m bench.compare $(A) $(B)

check: install-dev ## format, lint, types and the rules between rooms
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: install-dev ## put the code into the house's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean: ## remove what the targets made
	rm -rf $(VENV) build dist .demo .mypy_cache .ruff_cache .hypothesis
