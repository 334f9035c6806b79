# One command each, on a fresh machine with Python >= 3.11 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export OMP_NUM_THREADS ?= 1
# Tests write many small durable files; memory-backed storage makes their commits cheap.
export TMPDIR ?= $(shell test -w /dev/shm && echo /dev/shm || echo /tmp)

.PHONY: demo test check audit bench-gibo bench-defaults bench-fts-accounting clean

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@

demo: $(VENV)/.installed  ## tune a support vector machine on a private validation set; writes out/demo.png
	rm -rf out/demo && mkdir -p out/demo
	$(BIN)/python examples/svm_optuna.py out/demo
	$(BIN)/dptune plot out/demo/ledger.db out/demo.png

test: $(VENV)/.installed  ## the whole test suite, without the slow audits
	$(BIN)/python -m pytest -m "not slow" -n 2

audit: $(VENV)/.installed  ## the slow audits: long noise, whole runs, random kills; prints what they prove
	$(BIN)/python -m pytest -m slow -n 2 -rP

check: $(VENV)/.installed  ## lint, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench-gibo: $(VENV)/.installed  ## figures and tables of docs/benchmarks.md (hours; needs ../shared/data or DPTUNE_DATA)
	$(BIN)/python -m benchmarks.bench_gibo paper
	$(BIN)/python -m benchmarks.bench_gibo equal-mu
	$(BIN)/python -m benchmarks.bench_gibo speed

bench-defaults: $(VENV)/.installed  ## the search behind dptune/defaults.py
	$(BIN)/python -m benchmarks.defaults

bench-fts-accounting: $(VENV)/.installed  ## the subsampled accountants against the DP-FTS-DE paper
	$(BIN)/python -m benchmarks.fts_accounting

clean:
	rm -rf $(VENV) out dist build
