# Everything sets itself up: on a fresh Debian machine `make test` or `make demo` is all there is to type.

PYTHON = .venv/bin/python
# Each of the many processes would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup setup-run demo test test-long lint bench docs dist release

help:  ## Show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup:  ## All that running and developing need: packages into .venv, Java, jars (quick when done)
	@scripts/setup.sh

setup-run:  ## Only what running needs: half the packages, a third of the jars
	@scripts/setup.sh run

demo: setup-run  ## See it work: both ways of running a pipeline, side by side
	@.venv/bin/icefloe demo

test: setup  ## Lint, then all suites
	@$(PYTHON) scripts/suites.py

test-long: setup  ## All suites with many more examples, seeds and kills
	@$(PYTHON) scripts/suites.py --long

lint: setup  ## Style, types and borders only
	@$(PYTHON) scripts/suites.py --only lint

bench: setup  ## Every benchmark; each prints its figures as one JSON line, last
	@for file in benchmarks/*.py; do \
	  name=$$(basename $$file .py); \
	  if grep -q '__main__' $$file; then echo "== $$name"; $(PYTHON) -m benchmarks.$$name || exit 1; fi; \
	done

docs: setup  ## The documentation as a site in build/docs; every link and every file it names must exist
	@$(PYTHON) scripts/check_docs.py
	@.venv/bin/sphinx-build -q -W --keep-going -n -b html docs build/docs
	@cp build/docs/README.html build/docs/index.html && echo build/docs/index.html

dist: setup  ## A wheel and a source archive in dist/
	@rm -rf dist && $(PYTHON) -m build --no-isolation --outdir dist .

release: setup  ## Prepare a release, VERSION=0.2.0: changelog, wheel, source archive, SBOM; publishes nothing
	@test -n "$(VERSION)" || { echo 'say which: make release VERSION=0.2.0' >&2; exit 2; }
	@$(PYTHON) scripts/release.py "$(VERSION)"
