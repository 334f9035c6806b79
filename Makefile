# One command each, on a fresh machine with Python >= 3.11 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export OMP_NUM_THREADS ?= 1
# Tests write many small durable files; memory-backed storage makes their commits cheap.
export TMPDIR ?= $(shell test -w /dev/shm && echo /dev/shm || echo /tmp)
# Examples and workers are processes of their own: they shall find compiled modules.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo docs promises test test-site test-torch test-flower test-oldest check audit audit-core audit-ray audit-flower audit-outside test-wheel clean

help:  ## print this list; `make -C benchmarks` prints that of the benchmarks
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 22

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed-demo: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[optuna,sklearn,cmaes,cli,figures]"
	touch $@

$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python  ## everything: Ray, and the tools of tests and checks
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $(VENV)/.installed-demo $@

demo: $(VENV)/.installed-demo  ## search on public tumours with Optuna, one choice by 400 private patients; draws out/demo.png
	rm -rf out/demo && mkdir -p out/demo
	$(BIN)/python examples/choose_optuna.py out/demo
	$(BIN)/dptune plot out/demo/choose_optuna.db out/demo.png
	$(BIN)/dptune certificate out/demo/choose_optuna.db --registry examples/about.toml > out/demo/registry.yaml
	@echo "Done: an Optuna search on 100 public tumours, then one private choice by 400 patients, at epsilon = 4."
	@echo "Open out/demo.png: finalists, improvement and budget. Ledger: out/demo/choose_optuna.db."
	@echo "Statement: $(BIN)/dptune statement out/demo/choose_optuna.db. Record for a registry: out/demo/registry.yaml."

promises: $(VENV)/.installed  ## one file of tests for each guarantee of docs/privacy.md, in about a minute
	$(BIN)/python -m pytest -m "not slow" -n 2 tests/promises

test: $(VENV)/.installed  ## the whole test suite, without the slow audits and what `make test-torch` runs
	$(BIN)/python -m pytest -m "not slow and not torch" -n 3 --dist loadgroup --durations=30  # one of three has the Ray cluster, and mostly waits

$(VENV)/.installed-torch: $(VENV)/.installed  ## PyTorch, what trains with it, and CatBoost; Opacus and CatBoost by themselves: their lists are long
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch skorch opt_einsum botorch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-deps opacus catboost six
	$(BIN)/python -W ignore -c "import torch, opacus, skorch, botorch, catboost"  # without one its tests would skip
	touch $@

test-torch: $(VENV)/.installed-torch  ## what needs PyTorch, Opacus, skorch, BoTorch or CatBoost; a CPU will do
	$(BIN)/python -m pytest -m "torch and not slow" tests/training/test_opacus.py tests/losses/test_models.py \
		tests/optuna_front/test_known_noise.py tests/benchmarks/test_short_runs.py tests/test_examples.py \
		tests/sklearn_front/test_kinds_of_input.py

$(VENV)-flower/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)-flower
	$(VENV)-flower/bin/python -m pip install --quiet --editable ".[federated]" "flwr==1.41.0" pytest
	touch $@

test-flower: $(VENV)-flower/.installed  ## the Flower adapter, in an environment of its own: Flower pins much (300 MB)
	PYTHONPATH=tests/tools $(VENV)-flower/bin/python -m pytest -c /dev/null --rootdir . --noconftest tests/flower

audit-flower: $(VENV)-flower/.installed  ## kill -9 of Flower's clients, server app and SuperLink, 20 each (most of an hour)
	DPTUNE_KILLS=20 PYTHONPATH=tests/tools $(VENV)-flower/bin/python -m pytest -c /dev/null --rootdir . --noconftest tests/flower/test_kill.py

# What uses each dependency: command line and figures, noise, ledgers, accounting, models, Optuna, algorithms, Ray.
SMOKE := tests/test_cli.py tests/promises/test_statement.py tests/privacy/test_noise.py tests/ledger/test_connection.py \
	tests/ledger/test_plan_ledger.py tests/losses/test_functions.py tests/optuna_front/test_pages.py \
	tests/search/gp/test_posterior.py tests/search/gp/test_design.py tests/local/bandits/test_bandit.py tests/federated/test_agent.py \
	tests/losses/test_models.py tests/sklearn_front/test_early_stopping.py \
	tests/sklearn_front/test_private_search.py tests/choice/test_pure_choice.py \
	tests/ray_front/test_searchers.py tests/ray_front/test_cluster.py::test_a_run_from_end_to_end

$(VENV)-oldest/.installed: pyproject.toml .ci/oldest.py
	$(PYTHON) -m venv $(VENV)-oldest
	$(PYTHON) .ci/oldest.py > $(VENV)-oldest/constraints.txt
	$(VENV)-oldest/bin/python -m pip install --quiet --constraint $(VENV)-oldest/constraints.txt --editable ".[all,lightgbm]" \
		xgboost-cpu "pytest<9.2" pytest-xdist hypothesis mpmath
	touch $@

test-oldest: $(VENV)-oldest/.installed  ## a few tests of everything with the oldest versions that pyproject.toml allows
	$(VENV)-oldest/bin/python -m pytest -W default -m "not slow" -n 2 --dist loadgroup $(SMOKE)

audit: audit-core  ## the slow audits: long noise, whole runs, random kills; with -s they print what they prove
	$(BIN)/python -m pytest -m minutes -n 2 -rfE
	$(BIN)/python -m pytest -m "slow and ray" -rfE
	DPTUNE_EXPLORE=1 $(BIN)/python -m pytest -m hypothesis -n 2  # properties, on examples that nobody has tried yet

audit-ray: $(VENV)/.installed  ## a few of those with one, which CI runs: whole examples, restored runs, values that are looked for
	$(BIN)/python -m pytest -m "slow and ray" -k "not test_kill or (charge and draw)" -rfE \
		$(addprefix tests/ray_front/test_,cluster.py example.py no_marker.py ldp_searchers.py kill.py)

audit-core: $(VENV)/.installed  ## those without a Ray cluster that take less than minutes each
	SCIPY_ARRAY_API=1 $(BIN)/python -m pytest -q tests/sklearn_front/test_estimator_checks.py -k array_api  # SciPy reads it at import
	$(BIN)/python -m pytest -m "slow and not ray and not minutes" -n 2 -rfE --durations=30

$(VENV)-outside/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)-outside
	$(VENV)-outside/bin/python -m pip install --quiet --editable . "jax-privacy==2.0.0"
	touch $@

test-wheel:  ## sdist and wheel, installed with each extra alone in environments of their own (minutes)
	rm -rf build/wheels
	$(PYTHON) .ci/wheels.py build/wheels

audit-outside: $(VENV)-outside/.installed  ## jax-privacy's bounds on our releases, in an environment of its own (700 MB)
	$(VENV)-outside/bin/python -m benchmarks.training.audit_outside

docs: $(VENV)/.installed  ## the site in out/site, its notebooks executed; a warning is an error
	NO_MKDOCS_2_WARNING=1 PYDEVD_DISABLE_FILE_VALIDATION=1 $(BIN)/python -m mkdocs build --quiet --strict

out/site:
	$(MAKE) docs

test-site: out/site  ## the built site in headless Chromium, of the system: images load, code is whole, tables fit a phone
	DPTUNE_CHROMIUM=1 $(BIN)/python -m pytest tests/docs/test_site.py

check: $(VENV)/.installed  ## lint, format, English and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tests/tools/prose.py
	$(BIN)/mypy

clean:
	rm -rf $(VENV) $(VENV)-flower $(VENV)-oldest $(VENV)-outside out dist build
