# Everything runs in .venv, with the versions of requirements.lock. Further arguments: make sweep ARGS='--slots 4'

SWEEP ?= sweeps/quickstart.yaml
# The newest Python that starts, has venv with pip (Debian packages them apart), and has wheels of all locked packages.
FITS = import ensurepip, ssl, sys, venv; sys.exit(not (3, 11) <= sys.version_info < (3, 15))
PYTHON ?= $(shell for p in python3.14 python3.13 python3.12 python3.11 python3; do \
  $$p -c '$(FITS)' 2>/dev/null && echo $$p && break; done)
PIP = .venv/bin/python -m pip --disable-pip-version-check install
# pip compares each file with its hash before it runs any. torch, whose file depends on the machine, comes after them.
HASHED = .venv/bin/python .ci/hashes.py $(1) > .venv/part.txt && $(PIP) --require-hashes --no-deps -r .venv/part.txt
TORCH = $(PIP) -c requirements.lock torch
CHECKOUT = $(PIP) -qq --no-deps --no-build-isolation -e .

help: ## this list
	@awk -F ':.*## ' '/^[a-z -]+:.*## / {printf "make %-20s %s\n", $$1, $$2}' Makefile

sweep: .venv/.train ## run what SWEEP (sweeps/quickstart.yaml) declares and is missing, then print its table
	@.venv/bin/python -P -m study sweep $(SWEEP) $(ARGS)

embedded: .venv/.train ## one sweep after another: thirteen on the embedded corpus and its probes, hours of a CPU
	@.venv/bin/python -P -m study sweep sweeps --tag embedded $(ARGS)

report: .venv/.core ## print and write the table and figure of SWEEP again, from the records in runs/; no torch
	@.venv/bin/python -P -m study report $(SWEEP) $(ARGS)

reproduce: .venv/.paper ## verify the runs in results/, then make tables, figures, README and paper again: no difference in git
	@.venv/bin/python -P -m study verify --sources
	@.venv/bin/python -P -m study reproduce $(ARGS)
	@.venv/bin/python -P -m study verify

tables figures paper: .venv/.paper ## that part of it
	@.venv/bin/python -P -m study reproduce $@ $(ARGS)

verify: .venv/.core ## check every published file, in seconds; ARGS=--rescore scores every translation again, 100 minutes of a core; no torch
	@.venv/bin/python -P -m study verify $(ARGS)

test: .venv/.dev ## the tests of minutes, on all cores; ARGS='-n 0 -k lease' takes one process and some of them
	@.venv/bin/python -m pytest --numprocesses auto --maxprocesses 8 --dist worksteal -m 'not slow' $(ARGS)

test-all: .venv/.dev ## all tests: also those that kill, fill disks, lose servers and draw situations
	@.venv/bin/python -m pytest --numprocesses auto --maxprocesses 8 --dist worksteal $(ARGS)

parity: .venv/.parity ## compare mechanisms with published code, with its weights: transformers, x-transformers and others
	@.venv/bin/python -m pytest -n 0 tests/attention/test_same_as.py tests/models/test_decoder_only.py $(ARGS)

docs: .venv/.docs ## the pages of docs/ as a site in site/, with every link checked
	@NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --quiet --strict && echo "site/index.html"

check: .venv/.dev ## lint, formatting and types
	@.venv/bin/ruff check . && .venv/bin/ruff format --check . && .venv/bin/mypy

site: .venv/.core ## pages to look at the published results, in _site/; ARGS='--runs runs' shows your own
	@.venv/bin/python -P -m study site $(ARGS)

bench: .venv/.dev ## training speed against a plain torch.nn.Transformer loop; time and memory of mechanisms; the engine
	@.venv/bin/python benchmarks/throughput.py
	@.venv/bin/python benchmarks/attention.py $(ARGS)
	@.venv/bin/python benchmarks/pruning.py $(ARGS)
	@.venv/bin/python benchmarks/engine.py $(ARGS)
	@.venv/bin/python benchmarks/cost.py $(ARGS)

lock: .venv/bin/python ## rewrite requirements.* for pyproject.toml; named versions stay, a deleted line moves to the newest
	@test -x .cache/uv/bin/uv || { .venv/bin/python -m venv .cache/uv && .cache/uv/bin/python -m pip install -qq uv; }
	@cp requirements.lock .cache/locked && .cache/uv/bin/uv pip compile -q pyproject.toml --all-extras --universal \
	  --python-version 3.11 --generate-hashes --no-header -o .cache/locked
	@{ sed -n '/^#/p' requirements.lock; sed -nE '/^(cuda|nvidia-[cn]|triton)|pypy/d; s/^([a-z].*==[^ ]+).*/\1/p' .cache/locked; } \
	  > .cache/new && mv .cache/new requirements.lock
	@{ sed -n '1,2p' requirements.hashes; awk '/^[a-z]/ { kept = !/^(cuda|nvidia-[cn]|torch=|triton)|pypy/ } kept' .cache/locked; } \
	  > .cache/new && mv .cache/new requirements.hashes

.venv/bin/python:
	@p="$(PYTHON)"; $${p:-false} -c '$(FITS)' 2>/dev/null || { echo "PYTHON: expected Python 3.11 to 3.14 with venv,\
	 got $${p:-none}. Install one, for example python3 and python3-venv, or name one: make PYTHON=/path/to/python3" >&2;\
	 exit 2; }; $$p -m venv .venv

.venv/.core: pyproject.toml requirements.hashes | .venv/bin/python
	@echo "installing what reports need into .venv (once; a minute)"
	@$(call HASHED,)
	@$(CHECKOUT)
	@touch $@

.venv/.paper: pyproject.toml requirements.hashes | .venv/bin/python
	@echo "installing what reports and the paper need into .venv (once; a minute)"
	@$(call HASHED,paper)
	@$(CHECKOUT)
	@touch .venv/.core $@

.venv/.train: pyproject.toml requirements.hashes | .venv/bin/python
	@echo "installing torch and the rest into .venv (once; some minutes, most of them for torch)"
	@$(call HASHED,train wandb)
	@$(TORCH)
	@$(CHECKOUT)
	@touch .venv/.core $@

.venv/.dev: pyproject.toml requirements.hashes | .venv/bin/python
	@echo "installing torch, the test tools and the rest into .venv (once; some minutes, most of them for torch)"
	@$(call HASHED,dev)
	@$(TORCH)
	@$(CHECKOUT)
	@touch .venv/.core .venv/.paper .venv/.train $@

.venv/.parity: pyproject.toml requirements.hashes | .venv/bin/python
	@echo "installing torch, the test tools and libraries with attention of their own into .venv (once; some minutes)"
	@$(call HASHED,dev parity)
	@$(TORCH)
	@$(CHECKOUT)
	@touch .venv/.core .venv/.paper .venv/.train .venv/.dev $@

.venv/.docs: pyproject.toml requirements.hashes | .venv/bin/python
	@$(call HASHED,docs)
	@$(CHECKOUT)
	@touch $@

.PHONY: help sweep embedded report reproduce tables figures paper verify test test-all parity docs check site bench lock
