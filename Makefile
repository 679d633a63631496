# Every target sets up what it needs. PYTHON names the interpreter that the environment is made with.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PEERS := .venv-bench
TXTAI := .venv-quality
CODE := sql resources assets orchestration serving

# Many containers set this; every process of the set would then compile every module anew, which is most of its start.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo up down test test-all check format lock soak clean

help: ## Show what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

setup: $(STAMP) ## Install everything into .venv from the lock file

$(STAMP): requirements.lock pyproject.toml setup.sh
	@PYTHON=$(PYTHON) VENV=$(VENV) sh setup.sh
	@touch $@

demo: $(STAMP) ## Index the sample company, ask it questions as two people, stop again
	@$(BIN)/concordance demo

up: $(STAMP) ## Start everything with the sample company and stay (Ctrl-C stops)
	@$(BIN)/concordance up --sample

down: $(STAMP) ## Stop what `make up` or `concordance up --detach` started
	@$(BIN)/concordance down

test: $(STAMP) ## All tests but the slow ones: unit, contract, integration on real parts, HTTP
	@$(BIN)/python -m pytest -m "not slow" -q -n 3 --dist loadgroup $(ARGS)

test-all: $(STAMP) ## Every test
	@$(BIN)/python -m pytest -q -n 2 --dist loadgroup $(ARGS)

check: $(STAMP) ## Format, lint, types, imports, SQL, Dagster definitions, unit tests
	@$(BIN)/ruff format --check --quiet . || { echo "Run: make format"; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/basedpyright
	@$(BIN)/lint-imports --no-cache | tail -n 3
	@$(BIN)/sqlfluff lint --disable-progress-bar --nocolor sql > $(VENV)/sqlfluff.txt || { cat $(VENV)/sqlfluff.txt; exit 1; }
	@mkdir -p $(VENV)/dagster && touch $(VENV)/dagster/dagster.yaml
	@DAGSTER_HOME=$(CURDIR)/$(VENV)/dagster $(BIN)/dagster definitions validate -m orchestration.definitions --log-level warning
	@$(BIN)/python -m pytest tests/unit -q -n 2

format: $(STAMP) ## Format code
	@$(BIN)/ruff check --quiet --fix . || true
	@$(BIN)/ruff format --quiet .

lock: $(STAMP) ## Resolve all dependencies anew into requirements.lock
	@sh lock.sh $(BIN)

bench-ingest: $(STAMP) ## Ingest: documents per minute, a sync without changes, and the time from upload to searchable
	@$(BIN)/python -m bench.ingest

bench-sync: $(STAMP) ## Syncs of simulated Drive and Slack: 1,000 changed files, 10,000 messages, and a sync without changes
	@$(BIN)/python -m bench.sync

bench-answer: $(STAMP) ## Answer latency with a stand-in model, excluding the model's time
	@$(BIN)/python -m bench.answer

bench-search: $(STAMP) $(PEERS)/.installed ## Search over HTTP at 10,000 to 100,000 chunks, compared with two libraries
	@$(BIN)/python -m bench.search $(ARGS)

$(PEERS)/.installed: bench/requirements.txt | $(STAMP)
	@echo "Installing the libraries to compare with into $(PEERS) ..."
	@$(PYTHON) -m venv $(PEERS)
	@UV_PYTHON=$(PEERS)/bin/python $(BIN)/uv pip install --quiet --system-certs -r bench/requirements.txt 2>$(PEERS)/uv.log || \
	  $(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check -r bench/requirements.txt
	@touch $@

bench-quality: $(STAMP) $(TXTAI)/.installed ## nDCG@10 compared with txtai on the same vectors, query by query: make bench-quality FOLDERS="a b"
	@$(BIN)/python -m bench.quality $(FOLDERS)

$(TXTAI)/.installed: bench/requirements-quality.txt | $(STAMP)
	@echo "Installing the library to compare with into $(TXTAI) ..."
	@$(PYTHON) -m venv $(TXTAI)
	@UV_PYTHON=$(TXTAI)/bin/python $(BIN)/uv pip install --quiet --system-certs --no-deps -r bench/requirements-quality.txt 2>$(TXTAI)/uv.log || \
	  $(TXTAI)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r bench/requirements-quality.txt
	@touch $@

soak: $(STAMP) ## Soak test: ten minutes (SOAK_MINUTES) of searches, changes, syncs, kills and hostile clients
	@$(BIN)/python -m bench.soak

bench-vector: $(STAMP) ## The embedded vector server over HTTP: queries and writes
	@$(BIN)/python -m bench.vector

bench-listing: $(STAMP) ## Listing of 50,000 unchanged files
	@$(BIN)/python -m bench.listing

bench-erasure: $(STAMP) ## Memory of an erasure from a lake table of 600 MB
	@$(BIN)/python -m bench.erasure

clean: ## Remove the environment; data in .concordance stays
	rm -rf $(VENV) $(PEERS) $(TXTAI)
