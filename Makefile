# Everything sets itself up, in .venv inside the checkout. `make test TORCH=cpu` spares the gigabytes of CUDA.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
NATIVE := $(wildcard src/native/*) CMakeLists.txt pyproject.toml
WORKERS ?= 2
COMPILER := $(if $(filter default undefined,$(origin CXX)),c++,$(CXX))
PIP := $(BIN)/python -m pip --disable-pip-version-check
CONSTRAINTS ?= constraints.txt
INDEX := $(if $(filter cpu,$(TORCH)),--extra-index-url https://download.pytorch.org/whl/cpu)

.PHONY: help compiler constraints servers demo demo-text check test lint types fast unit bench perf-check observe wheels sdist docs soak kills fuzz chaos keras-versions clean

help:
	@echo "make demo    what is special, in a minute: speed, the plan, a named error, a kill and an exact resume"
	@echo "make demo-text  train on lines of text: words counted, looked up, batched by length (installs torch)"
	@echo "make check   lint, types and the tests that take moments: for the daily loop (under 3 minutes)"
	@echo "make test    lint, types, doctests and all tests (about 20 minutes on two cores; TORCH=cpu to install torch without CUDA)"
	@echo "make constraints  bring the versions that tests run with up to date (make test CONSTRAINTS= runs with the newest)"
	@echo "make servers install PostgreSQL, MariaDB and Chromium by apt, as root, for the tests that would be skipped without them"
	@echo "make bench   compare with tf.data and PyTorch (minutes)"
	@echo "make perf-check  CPU time beside plain NumPy: fails if headrace has become slower, on any machine (seconds)"
	@echo "make observe  do verdicts name planted bottlenecks, what do counters and timelines cost, do rows_of, skip_steps and debug agree with logged runs (20 minutes)"
	@echo "make wheels  build Linux wheels that run on glibc 2.28 and newer, and the sdist, into dist/, and test them (minutes; PYTHONS=...)"
	@echo "make docs    build the documentation into site/; warnings, broken links and requests to other hosts are errors"
	@echo "make soak    many more random pipelines (an hour; HEADRACE_EXAMPLES=... for fewer)"
	@echo "make kills   kill 200 writers of every kind (minutes)"
	@echo "make fuzz    broken bytes for kernels, under sanitizers, and for readers of stored rows, tables, text, indexes and states (FUZZ_SECONDS=... each); images, JSON, archives and folders of datasets in 1 GB of memory (FUZZ_RUNS=...)"
	@echo "make chaos   random pipelines under random faults, half an hour (CHAOS_SECONDS=...; a seed is printed where one fails), hundreds of killed workers of clusters and faults of databases (CHAOS_KILLS=...), thousands of interrupts (CHAOS_INTERRUPTS=...) and dropped iterators, thousands of reads from failing stores and by way of a cache that is meddled with (CHAOS_READS=...)"
	@echo "make keras-versions  the tests of to_keras() with the three newest versions of Keras (minutes)"
	@echo "make clean   remove what the others made"

compiler:
	@command -v $(COMPILER) >/dev/null || { \
	  echo "headrace has kernels in C++, and there is no compiler named $(COMPILER):"; \
	  echo "  Debian, Ubuntu: apt install g++     Fedora: dnf install gcc-c++"; \
	  echo "  macOS: xcode-select --install       elsewhere: make CXX=/path/to/compiler"; \
	  exit 1; }

servers:
	@if command -v mariadbd >/dev/null && command -v chromium >/dev/null && ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then :; \
	elif command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
	  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql mariadb-server chromium; } \
	  || echo "PostgreSQL, MariaDB and Chromium could not be installed: tests that need them are skipped"; \
	else echo "PostgreSQL, MariaDB or Chromium are not installed, and only root can: tests that need them are skipped"; fi

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "headrace needs Python 3.11 or newer, and $(PYTHON) is not: make PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# One stamp a set of extras; the package itself is built anew when its native sources change.
$(VENV)/.installed-%: $(BIN)/python $(NATIVE) | compiler
	@echo "installing headrace and what 'make' needs for '$*' into $(VENV); the first time takes some minutes"
	CXX="$(COMPILER)" $(PIP) install --editable '.[$*]' $(INDEX) $(if $(filter test bench,$*),$(CONSTRAINTS:%=--constraint %))
	@touch $@

# What others release tomorrow does not decide whether our tests pass: nothing is newer than what they passed with.
constraints: $(BIN)/python | compiler
	CXX="$(COMPILER)" $(PIP) install --upgrade --upgrade-strategy eager --editable '.[test,bench]' $(INDEX)
	$(PIP) freeze --exclude-editable | sed 's/==/<=/; s/+cpu$$//' > constraints.txt

demo: $(VENV)/.installed-demo
	$(BIN)/python examples/demo.py

demo-text: $(VENV)/.installed-torch
	$(BIN)/python examples/text_torch.py

check: lint types fast

test: lint types unit

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-test
	$(BIN)/mypy

fast: $(VENV)/.installed-test
	HEADRACE_TESTS=check $(BIN)/python -m pytest -n $(WORKERS) -m "not slow and not tensorflow" $(FAST)

unit: $(VENV)/.installed-test
	$(BIN)/python -m pytest -n $(WORKERS) --doctest-modules src/headrace tests

# Folders without the peers (TensorFlow, JAX, Keras), whose import alone takes long.
FAST := tests/plan tests/ops tests/optimize tests/execute tests/trace tests/io tests/text tests/sources tests/sinks \
  tests/storage tests/cli tests/test_*.py

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
	$(BIN)/python benchmarks/features.py
	$(BIN)/python benchmarks/functions.py
	$(BIN)/python benchmarks/text.py
	$(BIN)/python benchmarks/images.py
	$(BIN)/python benchmarks/index.py
	$(BIN)/python benchmarks/large_runs.py
	$(BIN)/python benchmarks/loaders.py
	$(BIN)/python benchmarks/cliffs.py
	$(BIN)/python benchmarks/databases.py
	$(BIN)/python benchmarks/stores.py
	$(BIN)/python benchmarks/service.py

perf-check: $(VENV)/.installed-demo
	$(BIN)/python benchmarks/perf_check.py

observe: $(VENV)/.installed-test
	$(BIN)/python benchmarks/why_slow.py --pipelines 100
	$(BIN)/python benchmarks/observe_cost.py
	$(BIN)/python benchmarks/observe_cost.py --counters
	$(BIN)/python -m tests.observe.provenance --steps 21000 --rows 1000

# One wheel per Python before 3.12, one for all later ones: make wheels PYTHONS="python3.11 python3.12"
PYTHONS ?= $(abspath $(BIN))/python $(shell python3.12 -c 'import sys; print(sys.executable)' 2>/dev/null)

wheels: $(VENV)/.installed-wheels sdist
	$(BIN)/python tools/build_wheels.py --out dist --python $(PYTHONS)
	for python in $(PYTHONS); do PYTHON=$$python tools/test_wheel.sh dist || exit 1; done

sdist: $(VENV)/.installed-wheels
	$(BIN)/python -c 'from scikit_build_core.build import build_sdist; print(build_sdist("dist"))'

docs: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --clean
	$(BIN)/python tools/check_site.py

soak: $(VENV)/.installed-test
	HEADRACE_TESTS=soak $(BIN)/python -m pytest -n $(WORKERS) --timeout 7200 tests/test_properties.py tests/cluster/test_cluster_properties.py

kills: $(VENV)/.installed-test
	$(BIN)/python tests/storage/kills.py --kills 200

FUZZ_SECONDS ?= 600
FUZZ_RUNS ?= 1000000
fuzz: $(VENV)/.installed-test
	$(BIN)/python -m tests.fuzz.fuzz --seconds $(FUZZ_SECONDS)
	$(BIN)/python -m tests.fuzz.pages --seconds $(FUZZ_SECONDS)
	$(BIN)/python -m tests.fuzz.tables --seconds $(FUZZ_SECONDS)
	$(BIN)/python -m tests.fuzz.states --seconds $(FUZZ_SECONDS)
	$(BIN)/python -m tests.fuzz.indexes --seconds $(FUZZ_SECONDS)
	$(BIN)/python -m tests.fuzz.texts --seconds $(FUZZ_SECONDS)
	$(BIN)/python -m tests.fuzz.cut_files --seconds $(FUZZ_SECONDS)
	$(BIN)/python -m tests.fuzz.jpegs --seconds $(FUZZ_SECONDS)
	$(BIN)/python -m tests.fuzz.decoders --runs $(FUZZ_RUNS) --seed $$$$
	$(BIN)/python -m tests.fuzz.datasets --runs $$(($(FUZZ_RUNS) / 10)) --seed $$$$

CHAOS_SECONDS ?= 1800
CHAOS_KILLS ?= 200
CHAOS_READS ?= 5000
CHAOS_INTERRUPTS ?= 10000
chaos: $(VENV)/.installed-test
	$(BIN)/python -m tests.chaos.run --seconds $(CHAOS_SECONDS)
	$(BIN)/python -m tests.chaos.every_call
	$(BIN)/python -m tests.chaos.interrupts --moments $(CHAOS_INTERRUPTS)
	$(BIN)/python -m tests.chaos.dropped --iterators 1000
	$(BIN)/python -m tests.chaos.service --kills $(CHAOS_KILLS) --on all
	$(BIN)/python -m tests.chaos.ray_head
	$(BIN)/python -m tests.chaos.trainers --kills 20 --table
	for backend in torch jax tensorflow; do KERAS_BACKEND=$$backend $(BIN)/python -m tests.chaos.trainers --kills 20 --keras || exit 1; done
	$(BIN)/python -m tests.chaos.requests --reads $(CHAOS_READS)
	$(BIN)/python -m tests.chaos.cache --reads $(CHAOS_READS)
	$(BIN)/python -m tests.chaos.cache --reads $(CHAOS_READS) --meddle
	for kind in postgresql mysql; do $(BIN)/python -m tests.chaos.databases --on $$kind --faults $(CHAOS_KILLS) || exit 1; done
	for kind in postgresql mysql sqlite duckdb; do $(BIN)/python -m tests.chaos.databases --on $$kind --kills 50 || exit 1; done

keras-versions: $(VENV)/.installed-test
	$(BIN)/python -m tests.adapters.keras_versions

clean:
	rm -rf $(VENV) build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
