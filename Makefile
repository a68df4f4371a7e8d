# The same targets here and in CI. `make` lists them.
.DEFAULT_GOAL := help
.PHONY: help setup demo test test-databases test-clouds test-console test-paimon-readers test-iceberg-catalog test-iceberg-clients test-iceberg-readers test-deploy soak coverage check bench clean

BIN := .venv/bin
CODE := src tests benchmarks deploy
# Every script is a benchmark except for the modules that they share.
SHARED := $(addprefix benchmarks/,__init__.py contest.py iceberg_peer.py lakefs_ranges.py lakefs_repository.py model_s3.py paimon_peer.py paimon_table.py sweep_lake.py sweep_run.py)
BENCHMARKS := $(subst /,.,$(basename $(filter-out $(SHARED),$(sort $(wildcard benchmarks/*.py)))))

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-22s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install everything that the targets below need
	@scripts/setup

demo: setup ## show a whole sweep on an embedded lake
	@$(BIN)/lakesweep demo

test: setup ## run all checks and all tests
	@scripts/test

test-databases: setup ## test the store on MongoDB and DynamoDB servers; fetches them
	@scripts/setup-databases
	$(BIN)/pytest tests/databases --numprocesses auto

test-clouds: setup ## test Azure, Google Cloud and S3 on four servers; fetches them
	@scripts/setup-clouds
	$(BIN)/pytest tests/clouds --timeout 900

test-console: setup ## test the console in Chromium; installs it if it is missing
	@scripts/setup-console
	$(BIN)/pytest tests/browser

test-paimon-readers: setup ## test our Paimon commits with pypaimon and Java; fetches both
	@scripts/setup-paimon-readers
	$(BIN)/pytest tests/readers --timeout 600

test-iceberg-catalog: setup ## run Iceberg's own catalog tests against our server; fetches them
	@scripts/setup-iceberg-suite
	$(BIN)/pytest tests/iceberg_suite --timeout 1800

test-iceberg-readers: setup ## test our upkeep of Iceberg tables with Java on Spark; fetches both
	@scripts/setup-peers
	$(BIN)/pytest tests/iceberg_readers --timeout 3600

test-iceberg-clients: setup ## test our Iceberg catalog with DuckDB; fetches it
	@scripts/setup-iceberg-clients
	$(BIN)/pytest tests/iceberg_clients --timeout 900

test-deploy: setup ## test packages, the Helm chart and the examples for schedulers; fetches tools
	@scripts/setup-deploy
	$(BIN)/pytest tests/deploy --timeout 900

soak: setup ## try random histories and damaged files: SECONDS=600, SEED=a number, TESTS=paths
	@$(BIN)/python -m tests.soak $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED)) $(TESTS)

coverage: setup ## run all tests and measure lines and branches, in all processes
	@$(BIN)/python -m pip --disable-pip-version-check --quiet install --constraint constraints.txt --group coverage
	@rm -rf .coverage
	$(BIN)/coverage run -m pytest --numprocesses auto --dist loadgroup --timeout 900
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage html --quiet
	@$(BIN)/coverage report --skip-covered --sort=cover

check: setup ## check format, lint, types, import layers and dead code
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/vulture

bench: setup ## run every benchmark and print its figures
	@for name in $(BENCHMARKS); do echo "== $$name"; $(BIN)/python -m $$name || exit 1; done

clean: ## remove .venv and all build results
	rm -rf .venv .clouds .coverage .databases .deploy .iceberg-clients .paimon-readers .peers .lakesweep build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests benchmarks -name __pycache__ -prune -exec rm -rf {} +
