# The one door: everything works with plain python3 and make, and offline once installed.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt

.DEFAULT_GOAL := help
.PHONY: help install install-dev demo test test-kills bench check format clean

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

bench: install-dev ## what syncd costs, as ratios to floors measured in turns (ARGS="--pods 2000")
	@$(BIN)/python -m bench.run $(ARGS)

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
