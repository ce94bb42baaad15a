# The two commands of the README: `make demo` and `make test`. Both create the environment they need.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp

.PHONY: demo test test-long bench bench-micro lint format serve clean

# Test processes; set TESTS_AT_ONCE=0 to run in one.
TESTS_AT_ONCE ?= 2

$(STAMP): pyproject.toml requirements.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	$(BIN)/gangfit warmup
	touch $(STAMP)

demo: $(STAMP)  ## solve a real snapshot: 847 nodes of Alibaba's Lingjun cluster
	$(BIN)/gangfit solve --no-preemption instances/lingjun-847n.json.gz

test: $(STAMP)
	$(BIN)/python -m pytest -n $(TESTS_AT_ONCE)

test-long: $(STAMP)  ## random rounds by the ten thousand
	$(BIN)/python -m pytest -m long -n $(TESTS_AT_ONCE)

bench: $(STAMP)  ## tables of docs/benchmarks.md, about 15 minutes
	$(BIN)/python -m benchmarks all

bench-micro: $(STAMP)  ## pytest-benchmark suites: fixed work
	$(BIN)/python -m pytest benchmarks/

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

serve: $(STAMP)
	$(BIN)/gangfit serve

clean:
	rm -rf $(VENV) build dist *.egg-info
