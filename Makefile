# The same targets here and in CI. `make` lists them.
.DEFAULT_GOAL := help
.PHONY: help setup demo test test-databases test-paimon-readers check bench clean

BIN := .venv/bin
CODE := src tests benchmarks
# Every script is a benchmark but for what they share.
SHARED := $(addprefix benchmarks/,__init__.py contest.py lakefs_ranges.py lakefs_repository.py model_s3.py paimon_peer.py paimon_table.py sweep_lake.py sweep_peer.py sweep_run.py)
BENCHMARKS := $(subst /,.,$(basename $(filter-out $(SHARED),$(sort $(wildcard benchmarks/*.py)))))

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## bring this machine and .venv to where everything below works
	@scripts/setup

demo: setup ## the whole story on an embedded lake
	@$(BIN)/lakesweep demo

test: check ## all checks, then all tests
	$(BIN)/pytest --numprocesses auto --dist loadgroup

test-databases: setup ## the store on servers of MongoDB and DynamoDB, which it fetches
	@scripts/setup-databases
	$(BIN)/pytest tests/databases --numprocesses auto

test-paimon-readers: setup ## our commits to Paimon tables, read by pypaimon and by Java, which it fetches
	@scripts/setup-paimon-readers
	$(BIN)/pytest tests/readers --timeout 600

check: setup ## format, lint, types, import layers, dead code
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/vulture

bench: setup ## run every benchmark and print its figures
	@for name in $(BENCHMARKS); do echo "== $$name"; $(BIN)/python -m $$name || exit 1; done

clean: ## remove .venv and everything that was built
	rm -rf .venv .databases .paimon-readers .peers .lakesweep build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests benchmarks -name __pycache__ -prune -exec rm -rf {} +
