# The only entry point: `make demo`, `make test`; `make help` lists the rest.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTHONS ?= python3.11 python3.12 python3.13 python3.14 /usr/bin/python3
PROCESSORS ?= $(shell uname -m)
STAMP := $(VENV)/.installed
SAYING := sh tools/saying.sh
# More workers than processors: a third of the time tests wait for a process or a disk.
WORKERS := $(shell expr $$(nproc 2>/dev/null || echo 2) \* 3 / 2)

unexport PYTHONDONTWRITEBYTECODE  # else each process that a test starts compiles the package again

ifeq ($(shell command -v cargo),)  # tools/set_up.sh fetches a toolchain for this checkout alone
export RUSTUP_HOME := $(CURDIR)/$(VENV)/rust/rustup
export CARGO_HOME := $(CURDIR)/$(VENV)/rust/cargo
export PATH := $(CARGO_HOME)/bin:$(PATH)
endif

.PHONY: help demo wheel test-wheel test test-all crash-states soak bit-rot fuzz test-clients test-cluster load-cluster native-test lint size bench site clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' Makefile | sed 's/:.*## /\t/' | expand -t 12

NATIVE_SOURCES := $(wildcard native/Cargo.* native/*/Cargo.toml native/*/src/*.rs native/*/src/*/*.rs)

$(VENV)/.demo: pyproject.toml $(NATIVE_SOURCES)
	@sh tools/set_up.sh $(VENV) $(PYTHON) search
	@touch $@

$(STAMP): pyproject.toml $(NATIVE_SOURCES)
	@sh tools/set_up.sh $(VENV) $(PYTHON) dev
	@touch $(VENV)/.demo $@

demo: $(VENV)/.demo  ## set up, ingest the sample crawl, look around
	sh tools/demo.sh $(BIN)/docstore

test: $(STAMP)  ## set up, run the tests
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal -m "not slow" --durations=30 --durations-min=3

test-all: $(STAMP) native-test  ## set up, run every test, the slow ones too
	DOCSTORE_EXAMPLES=all $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal --durations=30 --durations-min=3

crash-states: $(STAMP)  ## what a crash may leave, of every protocol on disk: 10,000 states, 20 minutes (SEED=0)
	$(BIN)/python -m tests.crash.states --states 10000 --seed $(or $(SEED),0)

soak: $(STAMP)  ## kills, stops, full disks and upkeep against ledgers outside the store (MINUTES=30 SEED=0; KEEP=folder to go on with)
	$(BIN)/python -m tests.crash.soak --minutes $(or $(MINUTES),30) --seed $(or $(SEED),0) $(if $(KEEP),--keep $(KEEP))

bit-rot: $(STAMP)  ## flipped bytes, cut and removed files: right answers, or errors that say where (FLIPS=1000000 SEED=0)
	$(BIN)/python -m tests.crash.rot --flips $(or $(FLIPS),1000000) --seed $(or $(SEED),0)

fuzz: $(STAMP)  ## each fuzz target for so long; cargo-fuzz and a nightly toolchain for the native ones (SECONDS=60 SEED=0)
	@$(SAYING) "installing atheris" $(BIN)/python -m pip install --quiet atheris
	for target in archive wire stored log crowded; do \
		$(BIN)/python -m tests.fuzz $$target --seconds $(or $(SECONDS),60) --seed $(or $(SEED),0) || exit 1; done
	for target in kernel codec index store; do mkdir -p build/fuzz/$$target && (cd native && cargo +nightly fuzz run $$target \
		../build/fuzz/$$target ../tests/fixtures/html -- -max_total_time=$(or $(SECONDS),60) -seed=$(or $(SEED),0) \
		-max_len=8192 -timeout=25 -print_final_stats=1) || exit 1; done

test-clients: $(STAMP)  ## web archive clients and a browser against the archive face; installs the clients, at most 10 minutes
	timeout 600 $(BIN)/python -m pytest -q -rs tests/clients

$(VENV)/.spark: $(STAMP)
	@$(SAYING) "installing Spark" $(BIN)/python -m pip install --quiet -e '.[spark]' && touch $@ \
		|| echo "**** SKIPPED: NO SWEEP ON SPARK: pip cannot install docstore[spark] ****"

test-cluster: $(STAMP) $(VENV)/.spark  ## tests on an HBase cluster and a Spark cluster (needs a JDK 17 and Maven; at most 25 minutes)
	sh tools/test_cluster.sh tests/cluster tests/contract -k "cluster or hbase"

load-cluster: $(STAMP)  ## four writers and two readers on an HBase cluster whose servers die (MINUTES=20)
	DOCSTORE_LOAD_MINUTES=$(or $(MINUTES),20) sh tools/test_cluster.sh tests/cluster/test_failover.py -k under_load

wheel:  ## sdist and wheel into dist/, checked; needs cargo (PROCESSORS="x86_64 aarch64": rustup target add, first)
	sh tools/wheel.sh build $(PYTHON) $(PROCESSORS)

test-wheel:  ## the wheel of dist/ under each of PYTHONS that is there, without compiler and cargo; the sdist says what it needs
	sh tools/wheel.sh test $(PYTHONS)

native-test: $(STAMP)  ## the native kernel's own tests and fuzz loop (FUZZ_EXECUTIONS=10000000 for more)
	cargo test --quiet --release --manifest-path native/Cargo.toml -- --include-ignored --nocapture

lint: $(STAMP)  ## linters, formatter and type checker
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

size: $(STAMP)  ## lines of code, files and classes, and what one put passes
	$(BIN)/python -m tools.size --folders

bench: $(STAMP)  ## measure; prints tables of docs/benchmarks.md (BENCH_ARGS="--corpus DIR" for more pages)
	@$(SAYING) "installing what docstore is compared with" $(BIN)/python -m pip install --quiet -e '.[bench]'
	$(BIN)/python -m tools.bench $(BENCH_ARGS)

$(VENV)/.docs: $(STAMP)
	@$(SAYING) "installing what makes the site" $(BIN)/python -m pip install --quiet -e '.[docs]' && touch $@

site: $(VENV)/.docs  ## build the site of docs/ in build/site; a broken link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

clean:  ## remove what the other targets made
	rm -rf $(VENV) .venv-clients .venv-wheel .demo-store build dist *.egg-info
