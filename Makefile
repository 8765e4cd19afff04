# Everything a person or CI does with this tree. `make demo` and `make test` need Python 3.11+ and nothing else.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
PURE := base wire records log coordinator controller group replication broker api

.PHONY: setup start demo check test bench messages reference clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Ottla needs Python 3.11 or newer; set PYTHON=...")'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(STAMP)

start: setup
	$(BIN)/ottla start --listen 127.0.0.1:9092 --data ./data

demo: setup
	$(BIN)/python -m ottla.cli demo

check: setup
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy
	$(BIN)/pytest -q -p no:cacheprovider tests/test_tidy.py $(wildcard $(addprefix tests/,$(PURE)))

test: check
	$(BIN)/pytest -p no:cacheprovider tests

bench: setup
	$(BIN)/python -m bench

reference: setup
	$(BIN)/python tools/generate_reference.py

messages: setup
	$(BIN)/python tools/generate_messages.py

clean:
	rm -rf .venv data .mypy_cache .ruff_cache .pytest_cache .hypothesis
