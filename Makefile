# The two commands of the README: `make demo` and `make test`. Both create the environment they need.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp

.PHONY: demo test test-long lint format serve clean

$(STAMP): pyproject.toml requirements.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	touch $(STAMP)

demo: $(STAMP)  ## solve a real snapshot: 847 nodes of Alibaba's Lingjun cluster
	$(BIN)/gangfit solve instances/lingjun-847n.json.gz

test: $(STAMP)
	$(BIN)/python -m pytest

test-long: $(STAMP)  ## random rounds by the ten thousand
	$(BIN)/python -m pytest -m long

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
