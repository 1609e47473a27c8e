# Everything runs in a virtual environment of its own (.venv), made on first use.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
SMALL  := $(VENV)/.small
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test lint bench figures docs clean

$(BIN)/python:
	@$(PYTHON) -m venv $(VENV)
	@$(INSTALL) --upgrade pip

# What the demo and the code in the README need; all the rest is several times as much.
$(SMALL): pyproject.toml | $(BIN)/python
	@echo "installing unbiasedgbm with XGBoost, LightGBM and CatBoost into $(VENV) ..."
	@$(INSTALL) -e '.[boosters,plot,cli]'
	@touch $@

$(STAMP): pyproject.toml | $(BIN)/python
	@echo "installing unbiasedgbm and what its extras need into $(VENV) ..."
	@$(INSTALL) -e '.[all,dev]'
	@touch $@

demo: $(if $(wildcard $(STAMP)),$(STAMP),$(SMALL))  ## the problem and the remedy, on data that ships with the install
	@$(BIN)/python -m unbiasedgbm demo

test: $(STAMP)  ## lint, types, tests
	@$(MAKE) --no-print-directory lint
	$(BIN)/python -m pytest -n auto --dist loadgroup -m "not slow"

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(STAMP)  ## speed and memory against the peers, written to benchmarks/results/
	$(BIN)/python -m benchmarks

figures: $(STAMP)  ## tables and figures of README and docs, from the committed results
	$(BIN)/python -m tools

docs: $(STAMP)  ## the documentation as a site, in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean:
	rm -rf $(VENV) build dist site .mypy_cache .ruff_cache .pytest_cache
