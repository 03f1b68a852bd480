# Needs Python 3.11 to 3.14 and make; nothing else. `make PYTHON=python3.12 run` picks another Python,
# `make PORT=8080 run` another port, OPENVIBE_VAR another folder for the data.

IS_SUPPORTED := -c 'import sys; print((3, 11) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null
# A .venv of another Python than the one that is named is made anew.
ifeq ($(origin PYTHON),undefined)
PYTHON := $(shell for candidate in python3 python3.13 python3.12 python3.11 python3.14; do \
	if [ "$$($$candidate $(IS_SUPPORTED))" = True ]; then echo $$candidate; break; fi; done)
else
EXACTLY := --this-python
endif
IN := .venv/bin/python
BOOTSTRAP := $(PYTHON) -I openvibe/runner/bootstrap_venv.py
PORT ?= 8000
export PORT
unexport PYTHONDONTWRITEBYTECODE  # compiled once and kept: each process of a run starts seconds sooner

# --strict: a link or an anchor that leads nowhere fails. As a module: the reference of the API is made by one of tests/.
BUILD_DOCS := $(IN) -m zensical build --strict --clean

# Under another name: a line that names it outright is started by `make -n`, too.
MAKE_AGAIN = $(MAKE)
PYTEST := $(IN) -m pytest
NIGHTLY := --hypothesis-profile=nightly
WAITING := -n 3  # browsers and processes wait as much as they work: on two processors three keep them busy

.PHONY: help python setup setup-test multilingual browser run check check-deploy docs screenshots unit journeys test nightly local-model lock clean

help:
	@echo "make run       start OpenVibe on http://127.0.0.1:$(PORT)/ (the first time sets everything up)"
	@echo "make check     run the checks that read code: lint, types, contracts, links of the documentation"
	@echo "make docs      build the documentation as a site, into site/"
	@echo "make screenshots  take the documentation's pictures anew"
	@echo "make unit      run the tests that need no browser and no second process (ROOM=search: of one room)"
	@echo "make journeys  run the tests in real browsers"
	@echo "make test      run every check and test"
	@echo "make nightly   the same, with many more made-up examples, and with real small models (1.6 GB of downloads)"
	@echo "make local-model  a small model on this machine, without a key (SIZE=1.5b: a larger one; MODEL_PORT=8090)"
	@echo "make setup     only install what make run needs, into .venv"
	@echo "make multilingual  install the multilingual search embedder as well (33 MB)"
	@echo "make lock      choose the versions of all dependencies anew"

python:
	@test "$$($(PYTHON) $(IS_SUPPORTED))" = True || { \
		echo "OpenVibe needs Python 3.11 to 3.14$(if $(PYTHON),: $(PYTHON) is none)." \
			"Install it (Debian: sudo apt-get install python3), or name it: make PYTHON=/path/to/python3 …" >&2; exit 1; }

setup: python
	@$(BOOTSTRAP) run $(EXACTLY)

setup-test: python
	@$(BOOTSTRAP) test $(EXACTLY)

multilingual: setup
	@$(BOOTSTRAP) multilingual $(EXACTLY)

run: setup
	@exec $(IN) -u manage.py serve --port $(PORT)

check check-deploy screenshots unit journeys test nightly: export OPENVIBE_VAR := $(CURDIR)/var/test

browser: setup-test
	@$(BOOTSTRAP) browser

check: setup-test
	$(IN) -m ruff check .
	$(IN) -m ruff format --check .
	$(IN) -m djlint --lint --quiet templates
	$(IN) -c "from importlinter.cli import lint_imports_command as check; check()"
	$(IN) manage.py makemigrations --check --dry-run
	.venv/bin/oxlint --deny-warnings static/js
	@$(MAKE_AGAIN) --no-print-directory check-deploy
	$(BUILD_DOCS)
	$(IN) -m tests.operations.locked_platforms
	$(IN) -m tests.operations.docstrings
	$(IN) -m mypy

check-deploy:
	OPENVIBE_PRODUCTION=1 OPENVIBE_SECRET_KEY="$$($(IN) -c 'import secrets; print(secrets.token_urlsafe(60))')" \
		OPENVIBE_ALLOWED_HOSTS=openvibe.example OPENVIBE_TRUSTED_PROXIES=1 $(IN) manage.py check --deploy --fail-level WARNING

docs: setup-test
	$(BUILD_DOCS)
	@echo "Open site/index.html, or with search: $(IN) -m http.server --directory site 8001"

screenshots: browser
	OPENVIBE_SCREENSHOTS=1 $(IN) -m pytest -n 0 tests/journeys/test_screenshots.py tests/journeys/test_screens.py

# ROOM=search: the tests of that room alone, whichever folders and files have its name; ROOM=changed: of the rooms that
# differ from the branch one began at (BASE, else main).
BASE ?= main
ROOM_NAMES = $(if $(filter changed,$(ROOM)),$(sort $(foreach file,$(shell git diff --name-only $(BASE)... ; git diff --name-only HEAD; \
	git ls-files --others --exclude-standard),$(notdir $(patsubst %/,%,$(dir $(file)))))),$(ROOM))
ROOM_TESTS = $(shell find tests \( $(foreach room,$(ROOM_NAMES),-type d -name '$(room)' -o -name 'test_$(room)*.py' -o) -false \) \
	-not -path '*/__pycache__*' | sort)
unit: setup-test
	$(if $(ROOM),$(if $(ROOM_TESTS),,$(error $(if $(filter changed,$(ROOM)),No room with tests of its own changed,No tests are named after “$(ROOM)”: look under tests/))))
	$(PYTEST) -n 2 -m unit $(if $(ROOM),$(ROOM_TESTS))

journeys: browser
	$(PYTEST) $(WAITING) tests/journeys

# A name of Make's own for each option: SIZE, MODEL_PORT, and CACHE for the folder of downloads.
local-model: setup
	@exec $(IN) -m openvibe.runner.local_model $(if $(SIZE),--size "$(SIZE)") $(if $(MODEL_PORT),--port "$(MODEL_PORT)") \
		$(if $(CACHE),--cache "$(CACHE)")

# The checks run beside the tests, and say at the end how long they took and, where they failed, what they found: what
# stands last is what one reads first.
test nightly: browser
	@mkdir -p $(OPENVIBE_VAR)
	@{ started=$$(date +%s); $(MAKE_AGAIN) --no-print-directory check; status=$$?; \
		echo "make check: $$(($$(date +%s) - started)) s"; exit $$status; } > $(OPENVIBE_VAR)/check.log 2>&1 & checks=$$!; \
	$(PYTEST) $(WAITING) $(if $(filter nightly,$@),$(NIGHTLY) --ignore=tests/nightly); tests=$$?; \
	$(if $(filter nightly,$@),$(PYTEST) -n 0 $(NIGHTLY) tests/nightly; tests=$$((tests | $$?));) \
	wait $$checks; checked=$$?; \
	if [ $$checked = 0 ]; then tail -n 1 $(OPENVIBE_VAR)/check.log; else cat $(OPENVIBE_VAR)/check.log; fi; exit $$((tests | checked))

lock: setup-test
	$(IN) -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
		requirements.in -o requirements.txt $(UPGRADE)
	$(IN) -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
		requirements-multilingual.in -o requirements-multilingual.txt $(UPGRADE)
	$(IN) -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
		requirements-s3.in -o requirements-s3.txt $(UPGRADE)
	$(IN) -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
		requirements-dev.in -o requirements-dev.txt $(UPGRADE)

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .cache site
