# What a person runs. From a bare checkout each target sets up its own .venv first.
# PYTHON=/path/to/python names the Python to make it with.

export PYTHON
bin := .venv/bin
# As many tests at a time as WORKERS says. A single test is run by .venv/bin/pytest itself.
WORKERS ?= 2
pytest := $(bin)/pytest --numprocesses $(WORKERS) --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help setup run test check coverage format demo lock clean

help: ## show this help
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install everything into .venv; nothing to do when it is up to date
	@scripts/setup.sh

run: setup ## start the daemon on http://127.0.0.1:8765 (it fetches the embedded model if needed)
	@exec $(bin)/rondo serve

demo: setup ## take a short tour on the real thing
	@$(bin)/python -m service.cli.demo

check: setup ## format, lint, types, imports, fast tests: what a contributor runs
	$(bin)/ruff format --check .
	$(bin)/ruff check .
	$(bin)/mypy
	$(bin)/lint-imports
	$(pytest) -m "not slow"

test: setup ## the whole test suite
	$(pytest)

coverage: setup ## which lines the fast tests run through; details in htmlcov/index.html
	$(pytest) -m "not slow" --cov --cov-report=term:skip-covered --cov-report=html

format: setup ## mend format and lint where that can be done by itself
	$(bin)/ruff format .
	$(bin)/ruff check --fix .

lock: setup ## write constraints.txt from what is installed
	@scripts/lock.sh

clean: ## remove .venv and caches; data and models stay
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist htmlcov .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
