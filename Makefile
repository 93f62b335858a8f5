# The whole house in a few words. Every target builds .venv first, from constraints.txt.
#
#   make demo              two embedded clusters, real data, replication, failover, proof
#   make unit              what needs neither Java nor brokers: under a minute
#   make test              the standard test suite: unit tests, and the promises on real brokers, MirrorMaker 2 and Spark
#   make test-all          the rest, but for chaos
#   make test-ci           both of them in one run, in less time than one after the other
#   make lint              ruff, formatting, mypy
#   make test-chaos        seeded faults, and the laws tried on many more examples: two to three hours
#   make chaos-seeds       of it the seeds alone, of a flow and of operations, that have not passed yet (SEEDS=50),
#                          some on clusters of three brokers (THREES=12), and some of mirrors that keep offsets (SAMES=30)
#   make fuzz              decoders with atheris, which follows their branches (SECONDS=600, NAMES='"saved plan"')
#   make bench             against MirrorMaker 2 and a bare relay on this machine, latency, growth and more: two and a half hours (BENCH=--quick: minutes)
#   make bench-plots       the plots of docs/benchmarks.md, from benchmarks/sizes.json
#   make bench-rereads     records re-read after a failover, by MirrorMaker 2's answers and by mmtool's
#   make completions docs  write the generated files again
#   make release           wheel, source distribution, SBOM, licences and checksums of this commit, in dist/
#   make site              the documentation as a site, in site/
#   make session-svg       record `mmtool demo` in a terminal, as docs/images/session.svg
#   make clean             everything that can be built again

# Set in many images: pytest would compile every test file again, in each worker of each tier.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo unit test test-all test-ci lint test-chaos chaos-seeds fuzz bench bench-plots bench-rereads completions docs site session-svg release clean

BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
PYTEST := $(BIN)/python -m pytest

help:
	@sed -n '2,/^$$/s/^# \{0,1\}//p' Makefile

demo: .venv/.stamp
	$(BIN)/mmtool demo

# The markers of pyproject.toml make the tiers. What starts a JVM is real; of that, a promise is tested by `make test`.
REAL := (kafka or spark or java)

# Three workers on two cores: many of these tests wait for a time limit.
unit: .venv/.stamp
	$(PYTEST) --ignore=tests/integration --ignore=tests/chaos -m "not chaos and not long and not $(REAL)" -n 3 --dist worksteal --hypothesis-profile=quick -q

# Spark starts some twenty times, in half the time once its class archive is there: made while other tests begin.
# Four workers on two cores: about half of a test with brokers is waiting. Each has its files (tests/kit/file_scheduling.py).
BESIDE_ARCHIVE = @$(BIN)/python -m mmtool.replication.spark.archive > /dev/null & \
	  $(PYTEST) -m "$(1)" -n 4 --dist loadfile --no-loadscope-reorder --durations=15; \
	  status=$$?; wait; exit $$status

test: .venv/.stamp
	$(call BESIDE_ARCHIVE,not chaos and (promise or not $(REAL)))

test-all: .venv/.stamp
	$(call BESIDE_ARCHIVE,not chaos and not promise and $(REAL))

test-ci: .venv/.stamp
	$(call BESIDE_ARCHIVE,not chaos)

lint: .venv/.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test-chaos: chaos-seeds
	$(PYTEST) -m chaos --durations=15
	$(PYTEST) tests/unit --hypothesis-profile=deep

SEEDS := 50
THREES := 12
SAMES := 30
chaos-seeds: .venv/.stamp
	$(BIN)/python -m kit.chaos --seeds $(SEEDS) --log .chaos/seeds-$$(git rev-parse --short HEAD).jsonl
	$(BIN)/python -m kit.chaos --brokers 3 --seeds $(THREES) --log .chaos/threes-$$(git rev-parse --short HEAD).jsonl
	$(BIN)/python -m kit.chaos --same --seeds $(SAMES) --log .chaos/same-$$(git rev-parse --short HEAD).jsonl
	$(BIN)/python -m kit.chaos --moves --seeds $(SEEDS) --log .chaos/moves-$$(git rev-parse --short HEAD).jsonl

# atheris has wheels for Linux on x86-64 alone, so no other target needs it.
SECONDS := 600
fuzz: .venv/.stamp
	$(PIP) install -c constraints.txt atheris
	$(BIN)/python -m kit.decoders.fuzz --seconds $(SECONDS) $(NAMES)

bench: .venv/.stamp
	$(BIN)/python benchmarks/side_by_side.py $(BENCH)
	$(BIN)/python benchmarks/limit.py $(BENCH)
	$(BIN)/python benchmarks/verify_beside_replicate.py $(BENCH)
	$(BIN)/python benchmarks/tls_beside_plain.py $(BENCH)
	$(BIN)/python benchmarks/same_offsets.py $(BENCH)
	$(BIN)/python benchmarks/transforms.py $(BENCH)
	$(BIN)/python benchmarks/translation_scale.py $(BENCH)
	$(BIN)/python benchmarks/steady_latency.py $(BENCH)
	$(BIN)/python benchmarks/sizes.py $(BENCH)
	$(BIN)/python benchmarks/growth.py $(BENCH)

# The plots of docs/benchmarks.md, from the figures that stand beside them.
bench-plots: .venv/.stamp
	$(PIP) install -c constraints.txt matplotlib
	$(BIN)/python benchmarks/plots.py benchmarks/sizes.json docs/images

bench-rereads: .venv/.stamp
	$(BIN)/python benchmarks/rereads.py

# zsh loads a completion whose first line says #compdef, and Typer writes an empty line before it.
FROM_FIRST_LINE = sed '1{/^$$/d;}'

completions: .venv/.stamp
	_MMTOOL_COMPLETE=source_bash $(BIN)/mmtool | $(FROM_FIRST_LINE) > completions/mmtool
	_MMTOOL_COMPLETE=source_zsh $(BIN)/mmtool | $(FROM_FIRST_LINE) > completions/_mmtool
	_MMTOOL_COMPLETE=source_fish $(BIN)/mmtool | $(FROM_FIRST_LINE) > completions/mmtool.fish

docs: .venv/.stamp
	$(BIN)/python docs/_tools/reference.py
	$(BIN)/python deploy/_tools/prometheus_rule.py

release: .venv/.stamp
	$(BIN)/python deploy/_tools/release.py

# Opens without a web server; its search needs one: python -m http.server -d site
site: docs
	$(BIN)/mkdocs build --strict

session-svg: .venv/.stamp
	$(BIN)/python docs/_tools/session.py $(BIN)/mmtool demo

clean:
	rm -rf .venv build dist site *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# setuptools first, then the project without build isolation: the pins hold for the build as well. Compiled on all cores
# afterwards, in seconds: where PYTHONDONTWRITEBYTECODE is set, each start of anything would compile its imports again.
.venv/.stamp: pyproject.toml constraints.txt
	@python=$$(sh .ci/python) && echo "building .venv with $$python (once, about a minute)" && \
	  $$python -m venv .venv
	$(PIP) install --no-compile -c constraints.txt setuptools
	$(PIP) install --no-compile -c constraints.txt --no-build-isolation -e '.[dev]'
	@echo "$(CURDIR)/tests" > $$($(BIN)/python -c 'import site; print(site.getsitepackages()[0])')/kit.pth
	$(BIN)/python docs/_tools/reference.py
	-@$(BIN)/python -m compileall -qq -j 0 mmtool commands translation tests/kit > /dev/null
	@touch $@
