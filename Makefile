# Two commands: `make train` and `make test`. Both set everything up in .venv first, which is quick the second time.
# `make test-all` also runs the tests marked slow and builds the documentation. `make docs` writes it to site/.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ENV ?= ALE/Pong-v5
ARGS ?=
PYTEST ?= -n 2 --dist worksteal

# Compiled modules are kept: a process starts 0.3 s sooner with them, and the tests start hundreds.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: train test test-all docs check setup clean

train: $(VENV)/.installed
	$(BIN)/ga3c train $(ENV) $(ARGS)

test: check
	$(BIN)/python -m pytest $(PYTEST) -m "not slow"

test-all: check docs
	$(BIN)/python -m pytest $(PYTEST)

# The variable turns a note of mkdocs-material about another program off.
docs: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

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

# Apart from the others, because it is 130 MB that no test needs.
$(VENV)/.installed-docs: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@touch $@

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache build site *.egg-info
