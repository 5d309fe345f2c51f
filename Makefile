# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
# A table of contents: the work is done by tests/prepare.py (environment), tests/run.py (checks and tests)
# and tests/lab/lab.py (the containers). Everything that is made lies in .venv, .build and .lab.

LAB ?= glidein-lab
PYTHON ?= python3
export LAB

PREPARE = $(PYTHON) tests/prepare.py
RUN = $(PYTHON) tests/run.py

.DEFAULT_GOAL := help
.PHONY: help venv collection lab lab-down demo demo-gateway demo-ce ee check test test-all release-check fuzz test-e2e lint docs bench clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile
	@echo "Variables: LAB=$(LAB) (name of the lab), PYTHON=$(PYTHON) (Python >= 3.11 that makes .venv)."

demo: ## the main job from end to end: an idle job becomes a glidein on Slurm, and runs
	@$(RUN) collection lab
	@$(PREPARE) exec python tests/demo.py

demo-gateway: ## the same through a gateway: no cycle logs in to the cluster
	@$(RUN) collection lab
	@$(PREPARE) exec python tests/demo_gateway.py

demo-ce: ## the same through an HTCondor-CE; LAB_HTCONDOR_CE_SOURCE names its archive
	@$(RUN) collection
	@$(PYTHON) tests/lab/lab.py up cm ce
	@$(PREPARE) exec python tests/demo_ce.py

ee: ## build the execution environment for AWX, and run a cycle in it, in the lab
	@$(RUN) ee
	@$(PREPARE) exec python tests/execution_environment.py run deploy
	@$(PREPARE) exec python tests/execution_environment.py run cycle

check: ## linters, types, unit tests, server, payload: what needs no lab
	@$(RUN) check

test: ## for each change: `make check`, and the main job from deploy to remove in a lab
	@$(RUN) test

test-all: ## everything, for a release; continues on the same commit (PARTS='...' for some)
	@$(RUN) --resume $(or $(PARTS),all)

release-check: ## import of the archive, its installation and the demo with it, site, changelog, licenses
	@$(RUN) lab galaxy-importer docs changelog release reuse
	@$(PREPARE) exec python tests/checks/installed.py demo

# SCENARIO=sites: one scenario. TEST=sites/test_sge.py: one file, in the lab that is running or is started for it.
test-e2e: ## all end-to-end scenarios; SCENARIO=sites for one, TEST=FILE for one file
ifdef TEST
	@$(RUN) collection
	@$(PREPARE) exec python tests/e2e/one_file.py $(TEST)
else
	@$(RUN) $(if $(SCENARIO),e2e-$(SCENARIO),e2e)
endif

fuzz: ## 20,000 bad inputs to the demand server
	@$(RUN) fuzz

lint: ## the linters alone
	@$(RUN) lint

docs: ## build the documentation site in .build/docs/html, and check its links
	@$(RUN) docs
	@echo "The first page: .build/docs/html/index.html"

bench: ## measure speed and memory, into .bench/results.json (BENCH=NAME for some)
	@$(PREPARE) venv
	@$(PREPARE) exec python tests/bench/run.py $(BENCH)

lab: ## bring the lab up: containers with a real HTCondor pool and Slurm cluster
	@$(PYTHON) tests/lab/lab.py up

lab-down: ## remove the lab and its network, and the second one of the end-to-end tests
	@$(PYTHON) tests/lab/lab.py down
	@LAB=$(LAB)-2 $(PYTHON) tests/lab/lab.py down

venv: ## make .venv: ansible-core and the tools of tests/requirements.txt
	@$(PREPARE) venv

collection: ## build the collection and install it in .build/collections
	@$(PREPARE) collection

clean: ## remove .venv, .build and tests/output (the lab stays: make lab-down)
	rm -rf .venv .build tests/output
