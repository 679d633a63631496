# Every target installs what it needs. PYTHON is the interpreter that creates the environment, and counts then only. WORKERS are the
# processes of tests, which wait half of their time.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PEERS := .venv-bench
TXTAI := .venv-quality
REAL := .venv-real
CLIENTS := .venv-clients
WORKERS ?= 4
QUICK := $(BIN)/python -m pytest -m "not slow" -q -n $(WORKERS) --dist loadgroup

# Many containers set this; every process would then compile every module again, which is most of its start-up time.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo up down test test-machine test-all test-real check format lock manifests client soak cluster clean screenshots

help: ## Show the available targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

setup: $(STAMP) $(if $(OCR),$(VENV)/.ocr) ## Install everything into .venv from the lock files; OCR=1 adds text recognition

$(VENV)/.ocr: requirements-ocr.lock | $(STAMP)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements-ocr.lock
	@touch $@

$(STAMP): requirements.lock pyproject.toml setup.sh
	@PYTHON=$(PYTHON) VENV=$(VENV) sh setup.sh
	@touch $@

demo: $(STAMP) ## Index the sample company, ask questions as two people, and stop
	@$(BIN)/concordance demo

up: $(STAMP) ## Start everything with the sample company and keep it running (Ctrl-C stops it)
	@$(BIN)/concordance up --sample

down: $(BIN)/concordance ## Stop what `make up` or `concordance up --detach` started
	@$(BIN)/concordance down

$(BIN)/concordance:
	@$(MAKE) --no-print-directory setup

test: $(STAMP) ## Run the tests of the code: unit, contract, integration, HTTP
	@$(QUICK) --ignore=tests/machine $(ARGS)

test-machine: $(STAMP) ## Run the tests of processes: the supervised installation, kill -9, workers, sandboxes, disks, browsers
	@$(QUICK) $(if $(findstring tests/,$(ARGS)),,tests/machine) $(ARGS)

test-all: $(STAMP) $(CLIENTS)/.installed ## Run every test, with new examples for the property tests
	@$(BIN)/python -m pytest -q -n 2 --dist loadgroup --hypothesis-profile=new $(ARGS)

$(CLIENTS)/.installed: tests/clients/requirements.txt | $(STAMP)
	@echo "Installing generators of clients and the frameworks of the Python client into $(CLIENTS) ..."
	@$(BIN)/python -m venv $(CLIENTS)
	@UV_PYTHON=$(CLIENTS)/bin/python $(BIN)/uv pip install --quiet --system-certs --no-deps -r tests/clients/requirements.txt 2>$(CLIENTS)/uv.log || \
	  $(CLIENTS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r tests/clients/requirements.txt
	@touch $@

test-real: $(STAMP) $(REAL)/.installed ## Try answers and search with a real language model and real E5, with injected faults; print a table
	@$(BIN)/python -m pytest tests/real -q $(ARGS)

$(REAL)/.installed: tests/real/requirements.txt | $(STAMP)
	@echo "Installing the servers into $(REAL); llama.cpp is built, which takes about five minutes on two cores ..."
	@$(BIN)/python -m venv $(REAL)
	@UV_PYTHON=$(REAL)/bin/python nice -n 10 $(BIN)/uv pip install --quiet --system-certs --no-deps -r tests/real/requirements.txt 2>$(REAL)/uv.log || \
	  nice -n 10 $(REAL)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r tests/real/requirements.txt
	@touch $@

check: $(STAMP) ## Check format, lint, types, imports, SQL and Dagster definitions, and run the unit tests
	@$(BIN)/ruff format --check --quiet . || { echo "Run: make format"; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/basedpyright
	@$(BIN)/lint-imports --no-cache > $(VENV)/imports.txt || { cat $(VENV)/imports.txt; exit 1; }
	@$(BIN)/sqlfluff lint --disable-progress-bar --nocolor sql > $(VENV)/sqlfluff.txt || { cat $(VENV)/sqlfluff.txt; exit 1; }
	@mkdir -p $(VENV)/dagster && touch $(VENV)/dagster/dagster.yaml
	@DAGSTER_HOME="$(CURDIR)/$(VENV)/dagster" $(BIN)/dagster definitions validate -m orchestration.definitions --log-level warning
	@$(BIN)/python -m pytest tests/unit -q -n 2

format: $(STAMP) ## Format the code
	@$(BIN)/ruff check --quiet --fix . || true
	@$(BIN)/ruff format --quiet .

lock: $(STAMP) ## Resolve all dependencies into requirements.lock
	@sh lock.sh $(BIN)

manifests: $(STAMP) ## Render and validate what deploy/ holds: Kubernetes, Compose, the run launcher's configuration, systemd
	@$(BIN)/python -m deploy.manifests

client: $(STAMP) ## Generate the Python client's models and methods from the OpenAPI document
	@$(BIN)/python -m clients.python.generator

bench-ingest: $(STAMP) ## Measure ingestion: documents per minute, a sync without changes, time from upload to searchable
	@$(BIN)/python -m bench.ingest

bench-parse: $(STAMP) ## Measure the parsers on folders of files, by format: FOLDERS="data/a data/b"
	@$(BIN)/python -m bench.parse $(FOLDERS)

bench-sync: $(STAMP) ## Measure syncs of a simulated Drive and Slack: 1,000 changed files, 10,000 messages, no changes
	@$(BIN)/python -m bench.sync

bench-questions: $(STAMP) ## Count how the sample company's questions are answered: sure, uncertain, not found
	@$(BIN)/python -m bench.questions

bench-answers: $(STAMP) ## Count the right quotes and honest doubts on three sets of questions; a third of each is kept aside
	@$(BIN)/python -m bench.answers $(ARGS)

bench-spelling: $(STAMP) ## Count what searches find for beginnings of words, errors, accents and separators; a third is kept aside
	@$(BIN)/python -m bench.spelling $(ARGS)

bench-relevance: $(STAMP) ## Count what searches show for irrelevant queries: FOLDERS="data/a data/b"
	@$(BIN)/python -m bench.relevance $(FOLDERS)

bench-answer: $(STAMP) ## Measure answer latency with a fake model, excluding the model's time
	@$(BIN)/python -m bench.answer

bench-search: $(STAMP) $(PEERS)/.installed ## Measure search over HTTP at 10,000 to 100,000 chunks, compared with two libraries
	@$(BIN)/python -m bench.search $(ARGS)

$(PEERS)/.installed: bench/requirements.txt | $(STAMP)
	@echo "Installing the libraries for comparison into $(PEERS) ..."
	@$(BIN)/python -m venv $(PEERS)
	@UV_PYTHON=$(PEERS)/bin/python $(BIN)/uv pip install --quiet --system-certs -r bench/requirements.txt 2>$(PEERS)/uv.log || \
	  $(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check -r bench/requirements.txt
	@touch $@

bench-quality: $(STAMP) $(TXTAI)/.installed ## Compare nDCG@10 with txtai on the same vectors: make bench-quality FOLDERS="a b"
	@$(BIN)/python -m bench.quality $(FOLDERS)

$(TXTAI)/.installed: bench/requirements-quality.txt | $(STAMP)
	@echo "Installing the library for comparison into $(TXTAI) ..."
	@$(BIN)/python -m venv $(TXTAI)
	@UV_PYTHON=$(TXTAI)/bin/python $(BIN)/uv pip install --quiet --system-certs --no-deps -r bench/requirements-quality.txt 2>$(TXTAI)/uv.log || \
	  $(TXTAI)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r bench/requirements-quality.txt
	@touch $@

soak: $(STAMP) ## Run ten minutes (SOAK_MINUTES) of searches, changes, syncs, kills and hostile clients
	@$(BIN)/python -m bench.soak

CLUSTER := .venv-cluster
cluster: $(STAMP) $(CLUSTER)/.installed ## Start a cluster of processes on this machine, test it, and break parts of it under load (CLUSTER_MINUTES)
	@CLUSTER_BIN="$(CURDIR)/$(CLUSTER)/bin" $(BIN)/python -m bench.cluster

$(CLUSTER)/.installed: bench/requirements-cluster.txt | $(STAMP)
	@echo "Installing Caddy and SeaweedFS into $(CLUSTER) ..."
	@$(BIN)/python -m venv $(CLUSTER)
	@UV_PYTHON=$(CLUSTER)/bin/python $(BIN)/uv pip install --quiet --system-certs --no-deps -r bench/requirements-cluster.txt 2>$(CLUSTER)/uv.log || \
	  $(CLUSTER)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r bench/requirements-cluster.txt
	@touch $@

screenshots: $(STAMP) ## Save pictures of all pages in screenshots/, and renew those of the documentation
	@SCREENSHOTS="$(CURDIR)/screenshots" $(BIN)/python -m pytest -q tests/machine/test_newcomer.py \
	  tests/machine/test_widget_browser.py::test_it_is_accessible_in_every_state_and_scheme
	@$(BIN)/python -m tests.fixtures.pictures screenshots

bench-page: $(STAMP) ## Measure the search page in headless Chromium: paint, time to results, weight
	@$(BIN)/python -m bench.page $(ARGS)

bench-vector: $(STAMP) ## Measure the embedded vector server over HTTP: queries and writes
	@$(BIN)/python -m bench.vector

bench-spread: $(STAMP) ## Measure a first sync that 1, 2 and 4 runs share: ARGS="--drives 100 --killed" or "--folder 800"
	@$(BIN)/python -m bench.spread $(ARGS)

bench-principals: $(STAMP) ## Measure what searches and listings cost with 50 and with 5,000 principals: ARGS="--chunks 20000"
	@$(BIN)/python -m bench.principals $(ARGS)

bench-dimensions: $(STAMP) ## Measure the vector server's memory and speed by the size of the vectors: ARGS="--points 50000"
	@$(BIN)/python -m bench.dimensions $(ARGS)

bench-traces: $(STAMP) ## Measure what spans cost, off and exported to a collector
	@$(BIN)/python -m bench.traces

bench-listing: $(STAMP) ## Measure the listing of 50,000 unchanged files
	@$(BIN)/python -m bench.listing

bench-ticks: $(STAMP) ## Measure what ticks cost at 10,000 and 100,000 documents: ARGS="--documents 10000 1000000 --source push"
	@$(BIN)/python -m bench.ticks $(ARGS)

bench-first-sync: $(STAMP) ## Measure first syncs of 50,000 and 200,000 files without embedding: ARGS="--documents 10000 50000"
	@$(BIN)/python -m bench.first_sync $(ARGS)

bench-scale: $(STAMP) ## Measure what a document and a passage cost, and print the tables of docs/scale.md
	@$(BIN)/python -m bench.scale $(ARGS)

PLOTS := .venv-plots
plot-scale: $(PLOTS)/.installed ## Draw the picture of docs/scale.md again, from the figures that it shows
	@$(PLOTS)/bin/python -m bench.scale_plot docs/scale.md docs/images/scale.svg

$(PLOTS)/.installed: bench/requirements-plots.txt | $(STAMP)
	@echo "Installing matplotlib into $(PLOTS) ..."
	@$(BIN)/python -m venv $(PLOTS)
	@UV_PYTHON=$(PLOTS)/bin/python $(BIN)/uv pip install --quiet --system-certs -r bench/requirements-plots.txt 2>$(PLOTS)/uv.log || \
	  $(PLOTS)/bin/python -m pip install --quiet --disable-pip-version-check -r bench/requirements-plots.txt
	@touch $@

bench-erasure: $(STAMP) ## Measure the memory of an erasure from a lake table of 600 MB
	@$(BIN)/python -m bench.erasure

clean: ## Remove the environments; data in .concordance stays
	rm -rf $(VENV) $(PEERS) $(TXTAI) $(REAL) $(CLIENTS) $(CLUSTER) $(PLOTS)
