# Every verb prepares what it needs. `make` alone lists the verbs.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

# Where this is set, every worker and every broker that tests start compiles all its modules anew: a second and more of each.
unexport PYTHONDONTWRITEBYTECODE

# Parts of about the same length, each a process that reads its own tests only. Workers of one run would all read all of them.
UNITS := units-client units-server units-protocol units-state units-others

.DEFAULT_GOAL := help
.PHONY: help setup demo test check $(UNITS) rules slow spark bench gen lock clean

help:            ## list the verbs
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY)  ## create .venv with the pinned versions

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Headrace needs Python 3.11 or newer; try: make PYTHON=python3.12")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(READY)   ## see it all at work: orders, a Spark pipeline that is killed and comes back, every number right
	@$(BIN)/headrace demo

check: $(READY)  ## format, lint, types, import rules, generated code, unit tests: about a minute
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	@$(MAKE) --no-print-directory --jobs --keep-going --output-sync=target rules $(UNITS)

PROTOCOL := tests/unit/protocol
STATE    := tests/unit/log tests/unit/cluster tests/unit/coordinator
SERVER   := tests/unit/server
CLIENT   := tests/unit/client

units-protocol: TESTS := $(PROTOCOL)
units-state:    TESTS := $(STATE)
units-server:   TESTS := $(SERVER)
units-client:   TESTS := $(CLIENT) --numprocesses 4 # they wait more than they compute
units-others:   TESTS := tests $(addprefix --ignore=,tests/spark $(PROTOCOL) $(STATE) $(SERVER) $(CLIENT))

$(UNITS): $(READY)
	$(BIN)/pytest $(TESTS) -m "not slow and not kafka" --quiet

rules: $(READY)
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo --no-cache
	$(BIN)/python tools/gen.py --check
	$(BIN)/python tools/compatibility.py --check

test: check      ## everything: check, then the slow tests, Apache Kafka as the judge, and Spark
	@$(MAKE) --no-print-directory --keep-going slow spark # one run shows all that fails

slow: $(READY)
	$(BIN)/pytest tests --ignore tests/spark -m "slow or kafka" --quiet --numprocesses 6 # they wait as much as they compute

spark: $(READY)
	$(BIN)/pytest tests/spark --quiet --numprocesses 3 --dist loadfile --no-loadscope-reorder # the longest files come first

bench: $(READY)  ## measure, and print the figures beside their goals
	@$(BIN)/python -m benchmarks

gen: $(READY)    ## definitions/ -> src/headrace/protocol/messages/, and the table of APIs in COMPATIBILITY.md
	$(BIN)/python tools/gen.py
	$(BIN)/python tools/compatibility.py

lock: $(READY)   ## resolve requirements.lock anew (no registry address is written)
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links \
	  --no-header --upgrade --extra dev --output-file requirements.lock pyproject.toml

clean:           ## remove what the verbs made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
	find src tools tests benchmarks examples -name __pycache__ -prune -exec rm -rf {} +
