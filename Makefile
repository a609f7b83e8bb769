# Two commands: `make train` and `make test`. Both set everything up in .venv first, which is quick the second time.
# `make test-all` also runs the tests marked slow.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ENV ?= ALE/Pong-v5
ARGS ?=
PYTEST ?= -n 2 --dist worksteal

# Compiled modules are kept: a process starts 0.3 s sooner with them, and the tests start hundreds.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: train test test-all check setup clean

train: $(VENV)/.installed
	$(BIN)/ga3c train $(ENV) $(ARGS)

test: check
	$(BIN)/python -m pytest $(PYTEST) -m "not slow"

test-all: check
	$(BIN)/python -m pytest $(PYTEST)

check: $(VENV)/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

setup: $(VENV)/.installed-dev

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "ga3c needs Python 3.11 or later; this is $$($(PYTHON) -V). Try: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache build *.egg-info
