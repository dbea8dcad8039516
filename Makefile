# `make demo` and `make test` set everything up by themselves, in .venv inside the checkout.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
NATIVE := $(wildcard src/native/*) CMakeLists.txt pyproject.toml
WORKERS ?= 2

.PHONY: help demo test lint types unit bench soak kills fuzz clean

help:
	@echo "make demo    train a small classifier on scikit-learn's digits"
	@echo "make test    lint, types, doctests and tests"
	@echo "make bench   compare with tf.data and PyTorch (minutes)"
	@echo "make soak    many more random pipelines (an hour)"
	@echo "make kills   kill 200 writers of a cache and of a save (minutes)"
	@echo "make fuzz    broken bytes for kernels, under sanitizers, and for readers of tables (40 minutes; FUZZ_SECONDS=... for each)"
	@echo "make clean   remove what the others made"

$(BIN)/python:
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "headrace needs Python 3.11 or newer: make PYTHON=..."'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

# One stamp a set of extras; the package itself is built anew when its native sources change.
$(VENV)/.installed-%: $(BIN)/python $(NATIVE)
	$(BIN)/python -m pip install --quiet --editable '.[$*]'
	@touch $@

demo: $(VENV)/.installed-demo
	$(BIN)/python examples/digits.py

test: lint types unit

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-test
	$(BIN)/mypy

unit: $(VENV)/.installed-test
	$(BIN)/python -m pytest -n $(WORKERS) --doctest-modules src/headrace tests

bench: $(VENV)/.installed-bench
	$(BIN)/python benchmarks/core.py
	$(BIN)/python benchmarks/operations.py
	$(BIN)/python benchmarks/storage.py
	$(BIN)/python benchmarks/trainers.py
	$(BIN)/python benchmarks/records.py
	$(BIN)/python benchmarks/processes.py
	$(BIN)/python benchmarks/autotune.py
	$(BIN)/python benchmarks/files.py
	$(BIN)/python benchmarks/examples.py
	$(BIN)/python benchmarks/functions.py

soak: $(VENV)/.installed-test
	HEADRACE_TESTS=soak $(BIN)/python -m pytest -n $(WORKERS) --timeout 7200 tests/test_properties.py

kills: $(VENV)/.installed-test
	$(BIN)/python tests/storage/kills.py --kills 200

FUZZ_SECONDS ?= 600
fuzz: $(VENV)/.installed-test
	$(BIN)/python -m tests.fuzz.fuzz --seconds $(FUZZ_SECONDS)
	$(BIN)/python -m tests.fuzz.tables --seconds $(FUZZ_SECONDS)

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
