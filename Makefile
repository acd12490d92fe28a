# Every target is a line you could type. `make demo` and `make test` need nothing but Python 3.11 and make.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: help venv demo test check bench judge clean

help:           ## show this list
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST)

venv: $(STAMP)  ## create .venv from requirements.lock
$(STAMP): requirements.lock pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: $(STAMP)  ## the whole way once; YES=1 answers by itself, MODEL=name uses a live model
	$(BIN)/governance demo $(if $(YES),--yes) $(if $(MODEL),--model $(MODEL))

test: check     ## every check and every test but `make judge` and the bench
	$(BIN)/pytest -n 2 --dist loadscope -m "not agentdojo" $(ARGS)

check: $(STAMP) ## format, lint, types twice, import contracts
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy
	$(BIN)/pyright
	$(BIN)/lint-imports --no-cache

bench: $(STAMP) ## the numbers, as ratios; ONLY=decision|ledger|memory|run
	$(BIN)/python tests/bench/run.py $(if $(ONLY),--only $(ONLY)) $(if $(JSON),--json)

judge: $(STAMP) ## AgentDojo's banking suite through our loop, in an environment of its own
	$(BIN)/python tests/judges/banking.py

clean:          ## remove what the targets made
	rm -rf .venv .judge .governance .mypy_cache .ruff_cache .pytest_cache .hypothesis
