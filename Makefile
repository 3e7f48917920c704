# The only entry point: `make demo`, `make test`; `make help` lists the rest.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help demo test test-all lint bench clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' Makefile | sed 's/:.*## /\t/' | expand -t 12

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e '.[dev]'
	touch $(STAMP)

demo: $(STAMP)  ## set up, ingest the sample crawl, look around
	sh tools/demo.sh $(BIN)/docstore

test: $(STAMP)  ## set up, run the tests
	$(BIN)/python -m pytest -q -m "not slow"

test-all: $(STAMP)  ## set up, run every test, the slow ones too
	$(BIN)/python -m pytest -q

lint: $(STAMP)  ## linters, formatter and type checker
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(STAMP)  ## measure; writes docs/benchmarks.md (BENCH_ARGS="--corpus DIR" for more pages)
	$(BIN)/python -m pip install --quiet -e '.[bench]'
	$(BIN)/python -m tools.bench $(BENCH_ARGS)

clean:  ## remove what the other targets made
	rm -rf $(VENV) .demo-store build dist *.egg-info
