# make run    install and serve on 127.0.0.1:8080, data in ./data
# make demo   install and show a server with a simulated fleet, on a temporary folder, until Ctrl-C
# make test   install what the tests need, then run all checks and tests
# make faults kill and stop every part of a cluster thirty times under load, and clients with their servers a hundred
#             times, and check the results: three quarters of an hour
# make mutants plant known bugs in a copy of the source, one at a time, and check that the tests find each: ten minutes
# make attacks send 24,000 mutated requests to both HTTP protocols and compare the responses: two minutes
# make bench-compare REV=main  compare the speed of the hot paths with another commit, interleaved: five minutes
# make bench-instructions REV=main  compare the instructions of a request with another commit, by valgrind: ten minutes
# make screenshots make the pictures of README and docs; with CHECK=1 twice, and compare them: one to three minutes
# make check  quick checks: format, lint, types, import contracts, fast tests
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DATA ?= data
LISTEN ?= 127.0.0.1:8080

.PHONY: run demo screenshots test faults mutants attacks explore check install install-test lock bench bench-compare bench-instructions format clean

run: install
	@$(BIN)/restante serve --data $(DATA) --listen $(LISTEN)

demo: install
	@$(BIN)/restante demo $(DEMO)

install: $(VENV)/.run
install-test: $(VENV)/.test

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Restante needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: requirements/run.txt pyproject.toml client/pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements/run.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable client --editable .
	$(BIN)/python -m compileall -q src client/src
	@touch $@

# Install the services first: a database driver of the tests is compiled against one of their libraries.
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
	scripts/test-client
	$(BIN)/pytest -q -n 3 --dist worksteal

# The full count, with a limit for the time until a poll is answered again. `make test` runs each campaign a few times.
faults: install-test
	RESTANTE_FAULT_KILLS=30 RESTANTE_FAULT_STOPS=30 RESTANTE_FAULT_BACK_SECONDS=3 \
		$(BIN)/pytest -q tests/faults/nodes/test_kill.py tests/faults/nodes/test_paused_dispatchers.py tests/faults/nodes/test_failover.py \
		tests/faults/commands/test_kill.py tests/faults/events/test_kill.py tests/faults/push/test_kill.py \
		tests/client/test_device_agent.py -k "not found"
	RESTANTE_CLIENT_KILLS=100 $(BIN)/pytest -q tests/faults/clients -k "not found"

# The bugs are in tests/mutants. `make test` only checks that they still fit the source.
mutants: install-test
	$(BIN)/python -m tests.mutants --jobs 2

# The full count. `make test` sends a tenth of these requests, the first ones.
attacks: install-test
	RESTANTE_MUTATED_REQUESTS=24000 $(BIN)/pytest -q tests/attacks/test_mutated_requests.py

# Runs the generated tests with new examples, twenty times as many. `make test` always uses the same examples.
explore: install-test
	RESTANTE_EXAMPLES_TIMES=20 $(BIN)/pytest -q -n 2 tests/models
	RESTANTE_EXAMPLES_TIMES=20 $(BIN)/pytest -q -n 2 -m hypothesis

# The same bytes every time: see decision 0217.
screenshots: install-test
	$(BIN)/python -m tests.screenshots $(if $(CHECK),--check)

format: install-test
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Pins have hashes and no index address, so the lock files work with every package index.
lock: install-test
	$(BIN)/pip install --quiet --disable-pip-version-check pip-tools
	cd requirements && for set in run test; do ../$(BIN)/pip-compile --quiet --generate-hashes --allow-unsafe \
		--strip-extras --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-header $$set.in -o $$set.txt; done

bench: install-test
	$(BIN)/python -m bench

# make bench-compare REV=main [NAMES="idle-poll command-pairs"]: this tree and another commit in turn, on the hot paths
bench-compare: install-test
	$(BIN)/python -m bench.compare $(REV) $(NAMES)

# make bench-instructions REV=main [NAMES="idle-poll command-pairs"]: the instructions of a request, in both trees
bench-instructions: install-test
	scripts/install-services valgrind
	$(BIN)/python -m bench.instructions $(REV) $(NAMES)

clean:
	rm -rf $(VENV) client/.venvs build src/*.egg-info client/src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
