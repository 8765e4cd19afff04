# Everything a person or CI does with this tree. `make demo` and `make test` need Python 3.11+ and nothing else.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
# The pure layers: deterministic, no sockets, no clock. Their tests run in `check`, with branch coverage in `test`.
LOWER := base wire records log coordinator controller security
UPPER := group txn replication broker api
PURE := $(LOWER) $(UPPER)
DOCS_TESTS := tests/test_tidy.py tests/test_reference.py tests/test_figures.py
PURE_TESTS := $(DOCS_TESTS) $(addprefix tests/,$(PURE))
# Tests with real sockets, processes and clients, in two lanes of about the same length: clusters, Spark and what fills
# up the time in one, the others in the other.
COPIES := tests/transactions/test_copies.py
REAL_TESTS := tests/test_second_chance.py tests/testing tests/cli tests/console tests/kafka_clients tests/hostile \
  tests/metrics tests/client tests/security_real $(wildcard tests/compat/test_*.py) $(filter-out $(COPIES),$(wildcard tests/transactions/test_*.py))
LONG_TESTS := tests/shell tests/cluster tests/arrow tests/spark tests/compat/spark tests/pipelines tests/examples tests/ship tests/soak $(COPIES)
COVERED_MIN := 95
comma := ,
empty :=
space := $(empty) $(empty)
COVERED := $(subst $(space),$(comma),$(patsubst %,src/ottla/%/*,$(PURE)))

.PHONY: setup start demo lint check check-lower check-upper test test-pure test-real test-long spark-crashes faults sim fuzz copies compat compat-kafka compat-others search bench bench-guard figures messages reference pictures clean scale soak

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Ottla needs Python 3.11 or newer; set PYTHON=...")'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(STAMP)

start: setup
	$(BIN)/ottla start --listen 127.0.0.1:9092 --data ./data

demo: setup
	$(BIN)/ottla demo

lint: setup
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy

# Two halves side by side, of about the same length.
check: setup
	@$(MAKE) --no-print-directory --output-sync=target -j2 check-lower check-upper

check-lower:
	$(BIN)/pytest -q -p no:cacheprovider $(addprefix tests/,$(LOWER))

check-upper: lint
	$(BIN)/pytest -q -p no:cacheprovider $(DOCS_TESTS) $(addprefix tests/,$(UPPER))

# Three lanes side by side: most of the real tests wait for timeouts, while the others use the processors. Each lane writes
# its result into .results, for `tools/second_chance.py`.
RESULTS := .results
test:
	@rm -rf $(RESULTS) && mkdir -p $(RESULTS)
	$(MAKE) --no-print-directory lint
	@touch $(RESULTS)/lint.ok
	$(MAKE) --no-print-directory -k -j3 test-pure test-real test-long

test-pure: setup
	$(BIN)/coverage run --branch --source=ottla -m pytest -q -p no:cacheprovider $(PURE_TESTS)
	$(BIN)/coverage report --skip-covered --fail-under=$(COVERED_MIN) --include='$(COVERED)'
	$(BIN)/pytest -q -p no:cacheprovider tests/sim
	@mkdir -p $(RESULTS) && touch $(RESULTS)/pure.ok

# A test that hangs in a C library ends its lane after this many seconds; no test takes that long otherwise.
HANGS := -o faulthandler_timeout=900

test-real: setup
	$(BIN)/pytest -p no:cacheprovider $(HANGS) --durations=5 --junitxml=$(RESULTS)/real.xml $(REAL_TESTS)

test-long: setup
	OTTLA_SLOW_MACHINE=1 $(BIN)/pytest -p no:cacheprovider $(HANGS) --durations=5 --junitxml=$(RESULTS)/long.xml $(LONG_TESTS)

# The tests of Spark's sink with everything that takes long: kills at every point, on every broker with transactions.
spark-crashes: setup
	OTTLA_LONG_TESTS=1 $(BIN)/pytest -p no:cacheprovider $(HANGS) --durations=5 tests/spark/test_exactly_once.py \
	  tests/spark/test_exactly_once_crashes.py

# What a cluster of real processes must survive; SECURE=1: with TLS and SCRAM between brokers, SASL to ZooKeeper and ACLs.
FAULTS := $(addprefix tests/cluster/,test_faults.py test_failover.py test_disks.py)
faults: setup
	$(if $(SECURE),OTTLA_SECURE=1) $(BIN)/pytest -p no:cacheprovider $(HANGS) --durations=5 -rP $(FAULTS)

# Simulated clusters: `make sim N=20000` runs that many seeds from FIRST on, `make sim SEED=7` one, with its transcript.
N ?= 1000
FIRST ?= 0
sim: setup
	$(BIN)/python -m tests.sim.run $(if $(SEED),--seed $(SEED),--count $(N) --first $(FIRST) --keep-going)

# What a cluster costs that is larger than this machine, without logs: `make scale BROKERS=100 PARTITIONS=100000 PER_TOPIC=100`.
scale: setup
	$(BIN)/python -m tests.sim.scale --brokers $(or $(BROKERS),100) --partitions $(or $(PARTITIONS),100000) \
	  --per-topic $(or $(PER_TOPIC),100) $(if $(RESTARTS),--restarts $(RESTARTS))

# Hostile requests, batches and bytes: `make fuzz N=1000000 SEED=7`; `make fuzz CASE=.fuzz/...` repeats one that failed. Where
# atheris cannot be installed, everything but the search by coverage runs.
fuzz: setup
	@$(BIN)/python -c 'import atheris' 2>/dev/null || \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[fuzz]' || true
	$(BIN)/python -m tests.hostile.fuzz $(if $(CASE),--case $(CASE),$(if $(filter file,$(origin N)),,--count $(N)) $(if $(SEED),--seed $(SEED)))

# Copies in transactions while processes are killed: `make copies BROKERS=3 CLIENT=confluent SEED=7 RUNS=10 SERVER=apache`;
# MEMBERS=1: copiers are members of a group; RECORDS, BYTES, KILLS; FOLDER keeps logs and data of runs that failed.
copies: setup
	$(BIN)/python -m tests.transactions.copies --brokers $(or $(BROKERS),1) --client $(or $(CLIENT),all) \
	  --server $(or $(SERVER),ottla) --runs $(or $(RUNS),1) $(if $(SEED),--seed $(SEED)) \
	  $(if $(RECORDS),--records $(RECORDS)) $(if $(BYTES),--bytes $(BYTES)) $(if $(KILLS),--kills $(KILLS)) \
	  $(if $(MEMBERS),--members) $(if $(FOLDER),--folder $(FOLDER))

# The console's search through 2 million records, in a browser and without, stopped half way; `make test` does it with fewer.
search: setup
	OTTLA_LONG_TESTS=1 $(BIN)/pytest -p no:cacheprovider $(HANGS) --durations=5 -rP tests/console/records/test_search.py \
	  tests/console/records/test_browser.py -k "half_way"

# Programs that others wrote, against real brokers: all rows of docs/compatibility.md, or `make compat ONLY=storm` (what
# pytest's -k takes). It writes the results into docs/. All rows run in two lanes side by side, as most of the time they
# wait; those that take Apache Kafka from Maven share one.
ROWS := tests/compat/rows
KAFKA_ROWS := $(patsubst %,$(ROWS)/test_%.py,connect development kafka_tools migrating registry streams upgrades)
COMPAT := $(BIN)/pytest -p no:cacheprovider $(HANGS) --durations=10
compat: setup
ifdef ONLY
	$(COMPAT) $(ROWS) -k "$(ONLY)"
else
	@$(MAKE) --no-print-directory -k -j2 compat-kafka compat-others
endif

compat-kafka:
	$(COMPAT) $(KAFKA_ROWS)

compat-others:
	$(COMPAT) $(filter-out $(KAFKA_ROWS),$(wildcard $(ROWS)/test_*.py))

# Does anything grow? An hour of mixed load with restarts and 24 cycles of retention: `make soak MINUTES=3 RATE=50`; JSON=FILE
# keeps all samples.
soak: setup
	$(BIN)/python -m tests.soak.run --minutes $(or $(MINUTES),60) --rate $(or $(RATE),100) $(if $(JSON),--json $(JSON))

bench: setup
	$(BIN)/python -m bench

# What the bench measured, in docs/ and README.md: `make figures RUN="A.json B.json"` publishes these; without RUN all pages are
# made again from what is there.
figures: setup
	$(BIN)/python -m bench.publication $(or $(RUN),docs/performance.json)

# Pictures of the console in docs/images/; takes Debian's chromium.
pictures: setup
	$(BIN)/python -m tools.draw_console

# What the interpreter does for a request, against what is written down: `make bench-guard BEFORE=FOLDER` against a checkout.
bench-guard: setup
	$(BIN)/python -m bench.guard $(if $(BEFORE),--before $(BEFORE))

reference: setup
	$(BIN)/python -m tools.generate_reference

messages: setup
	$(BIN)/python tools/generate_messages.py

clean:
	rm -rf .venv data tests/compat/.cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage .fuzz $(RESULTS)
