# make run    install and serve on 127.0.0.1:8080, data in ./data
# make test   install what the tests need and run everything
# make faults kill and stop every part thirty times under load, and check what became of everything: half an hour
# make check  the quick gate: format, lint, types, import contracts, fast tests
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DATA ?= data
LISTEN ?= 127.0.0.1:8080

.PHONY: run test failed-again faults explore check install install-test lock bench format clean

run: install
	@$(BIN)/restante serve --data $(DATA) --listen $(LISTEN)

install: $(VENV)/.run
install-test: $(VENV)/.test

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Restante needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: requirements/run.txt pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements/run.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	$(BIN)/python -m compileall -q src
	@touch $@

# The services first: one of the drivers that the tests use is compiled against a library of theirs.
$(VENV)/.test: requirements/test.txt scripts/install-services $(VENV)/.run
	scripts/install-services
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements/test.txt
	@touch $@

check: install-test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -q -m "not slow" -n 2

test: install-test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -q -n 3 --dist worksteal || $(MAKE) --no-print-directory failed-again

# Hundreds of tests start, kill and wait for real processes; on a machine that is busy with others' work one is late now
# and then. What failed among the others is run once more by itself: both results are shown, and failing twice fails.
failed-again:
	@echo "What failed is run once more, by itself. If it passes now it is unsteady, and wants mending all the same:"
	$(BIN)/pytest -q --last-failed --last-failed-no-failures none

# The full count, with the time that a poll may take to be answered again. `make test` does each of it a few times.
faults: install-test
	RESTANTE_FAULT_KILLS=30 RESTANTE_FAULT_STOPS=30 RESTANTE_FAULT_BACK_SECONDS=3 \
		$(BIN)/pytest -q tests/faults/test_nodes_kill.py tests/faults/test_nodes_stop.py tests/faults/test_nodes_failover.py \
		tests/faults/test_commands_kill.py tests/faults/test_events_kill.py tests/faults/test_push_kill.py -k "not found"

# Examples nobody has tried yet, many times as many, for the tests that make up their own. `make test` always tries the same.
explore: install-test
	RESTANTE_EXAMPLES_TIMES=20 $(BIN)/pytest -q -n 2 tests/models
	RESTANTE_EXAMPLES_TIMES=20 $(BIN)/pytest -q -n 2 -m hypothesis

format: install-test
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Pins with hashes and without any address, so that the lock files fit every index the machine is set up for.
lock: install-test
	$(BIN)/pip install --quiet --disable-pip-version-check pip-tools
	cd requirements && for set in run test; do ../$(BIN)/pip-compile --quiet --generate-hashes --allow-unsafe \
		--strip-extras --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-header $$set.in -o $$set.txt; done

bench: install-test
	$(BIN)/python -m bench

clean:
	rm -rf $(VENV) build src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
