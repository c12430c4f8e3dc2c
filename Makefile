# SPDX-License-Identifier: BSD-3-Clause
# Targets are listed by `make help`. Variables that can be overridden:
#   TESTS=tests/test_x.py   what `make test` runs        PYTEST_FLAGS=-x   more options for pytest
#   WORKERS=4               number of tests at a time       PACKAGES=present  trust that all packages are installed
#   RUNS=results/*/*        what `make figures` draws; default: the runs of this machine, and the recorded runs
#   STEPS=sanity,plug       `make vm-test` does these alone, on machines that are up; they stay up
#   FUZZ_SECONDS=600        of `make fuzz`, for each parser and for run folders
#   CROSSINGS=30            of `make fuzz`, faults to draw for each set of a run's features
TESTS ?= tests
FUZZ_SECONDS ?= 5
CROSSINGS ?= 1
PYTEST_FLAGS ?=
# Tests that do not measure spend part of their time waiting, so run two per CPU. Each worker more collects all tests
# again.
WORKERS ?= $(shell workers=$$((2 * $$(nproc))); echo $$((workers < 8 ? workers : 8)))
RUNS ?=

# meson compiles through ccache where there is one: tests build these sources again and again.
export CCACHE_DIR := $(CURDIR)/.cache/ccache
# Without this, ccache compiles each file that uses the precompiled header again.
export CCACHE_SLOPPINESS := pch_defines,time_macros

VENV := .venv/bin
POLLSCOPE := $(VENV)/pollscope
PYTEST := $(VENV)/pytest $(PYTEST_FLAGS)
NOT_HERE := not machine and not chroot
# Sweeps whose lines a cross-section among the other tests covers.
SELECTED = $(NOT_HERE) and not thorough
# Files with tests that measure: reading all other files takes seconds.
MEASURING = $(if $(TESTS:tests=),$(TESTS),$(shell grep -rl --include='test_*.py' 'pytest\.mark\.measure' tests | sort))
# Exit code of pytest when nothing was selected.
NO_TEST := 5
# Also files that git does not know yet.
C_FILES := git ls-files --cached --others --exclude-standard --deduplicate --
UV_COMPILE := $(VENV)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-annotate --no-header

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help build run opening test test-all lint lint-fast tables format bench figures fuzz vm-test vm-roles-test chroot-test machine-test walk-test lock clean clean-host ready ready-dev ready-vm programs users-programs

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ready users-programs ## the programs that users run, in build/, set-up included

# The rows of the first run need no PMU, NIC or third CPU. Rings that the virtual NIC keeps full keep the generator out
# of the measurement, so that a virtual machine gives narrow intervals.
FULL_RINGS := --quick --set noise.extra_blocks=1

# Exit code 1 (a trial failed, or a check of this machine does not hold) is part of the report and comes back at the end.
run: opening ready users-programs ## measure the polling tax on this machine and show it (three minutes, set-up included)
	@mkdir -p results out .cache && touch .cache/run-started && : >out/run.txt
	@worst=0; \
	measure() { code=0; $(POLLSCOPE) run --wait "$$@" >>out/run.txt || code=$$?; [ $$code -le 1 ] || exit $$code; [ $$code = 0 ] || worst=1; }; \
	measure TAX; \
	measure SANITY --set noise.extra_blocks=0; \
	measure H-F3a $(FULL_RINGS) --set parameters.feed=infinite; \
	measure S-F10a $(FULL_RINGS) --set repeats.count=16 --set 'factors.feed=[infinite]' --set baseline.point.feed=infinite; \
	runs=$$(find results -mindepth 2 -maxdepth 2 -type d -newer .cache/run-started | sort -t/ -k3); \
	$(POLLSCOPE) report $$runs --out out/report.html >out/report.txt & \
	echo; $(POLLSCOPE) claims $$runs --summary || exit $$?; echo; \
	wait $$! || exit $$?; cat out/report.txt; \
	[ $$worst = 0 ] || echo "Trials failed, or a check of this machine does not hold: out/run.txt says which." \
		"Other programs on the machine can cause both: then make run again when it is idle."; \
	exit $$worst

opening:
	@echo "make run shows how many cycles of a polling core are wasted on this machine, and what empty queues cost."
	@echo "It measures four experiments in two minutes. Before that it installs what is missing and reserves hugepages"
	@echo "(one or two minutes; make clean-host restores them). It ends with findings, verdicts and out/report.html."
	@echo

# Tests that spin lcores need the machine for themselves, so all others run in parallel before them. Files are not split,
# because their fixtures are expensive, and not reordered: by number of tests the longest would come last.
# An idle worker takes tests from another one: files differ by a factor of a thousand in their time.
test: export PYTHONDONTWRITEBYTECODE := # some containers set it; every worker would compile all tests again
test-all: SELECTED = $(NOT_HERE)
test-all: test ## also the full sweeps of which `make test` takes a cross-section

test: ready-dev programs ## the tests, set-up included
	@apart=0; $(PYTEST) -m "not measure and $(SELECTED)" -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(TESTS) || apart=$$?; \
	alone=0; $(PYTEST) -m "measure and $(SELECTED)" $(MEASURING) || alone=$$?; \
	case $$apart,$$alone in 0,0 | 0,$(NO_TEST) | $(NO_TEST),0) ;; *) exit 1 ;; esac

chroot-test: ready-dev ## the driver on other releases of DPDK, and a bundle, in Debian systems made for it (root, network)
	@$(PYTEST) -m chroot tests/chroot

machine-test: ready-dev ## the set-up, `make run` and `make test` and what walk-test does, on bare Debian and Ubuntu (root, network, 3 h)
	@$(PYTEST) -m machine tests/chroot

walk-test: ready-dev ready-vm programs ## docs/two-servers.md by its commands, in chroots and on emulated machines (root, network, 1.5 h)
	@$(PYTEST) -m machine tests/chroot/test_first_hour_walk.py tests/chroot/test_first_hour_machines.py

lint: ready-dev programs lint-fast ## format, style, words, types, imports and scripts of all files (8 min)
	$(VENV)/mypy -p pollscope
	MYPYPATH=benchmarks $(VENV)/mypy benchmarks tests/test_second_observer.py
	@# Each folder with a conftest.py of its own apart: two modules of one name are no program.
	MYPYPATH=tests/fuzz:tests:tests/knobs $(VENV)/mypy --exclude 'tests/(knobs|chroot)/|test_second_observer' tests
	MYPYPATH=tests $(VENV)/mypy tests/knobs
	MYPYPATH=tests $(VENV)/mypy tests/chroot
	@# Ansible puts these together under ansible.module_utils, where mypy does not see them.
	$(VENV)/mypy --allow-subclassing-any --no-warn-return-any playbooks/library playbooks/module_utils playbooks/callback_plugins
	$(C_FILES) 'apps/*.c' | xargs -r -P 2 -n 4 $(VENV)/clang-tidy --quiet --warnings-as-errors='*' -p build
	PATH="$(CURDIR)/$(VENV):$$PATH" $(VENV)/ansible-lint --offline playbooks

lint-fast: ready-dev ## the part of lint that takes a minute: format, style, words, imports, scripts
	$(VENV)/ruff check .
	$(VENV)/ruff format --check .
	$(VENV)/python tests/words.py
	$(VENV)/lint-imports --no-cache
	$(C_FILES) 'apps/*.[ch]' | xargs -r $(VENV)/clang-format --dry-run -Werror
	git grep -lIE '^#!(/usr)?/bin/(env )?(ba|da)?sh' -- ':!*.py' | xargs -r $(VENV)/shellcheck

tables: ready ## write the tables of docs/ again that are made from the code and the recorded runs (two minutes)
	@$(VENV)/python docs/tables.py

format: ready-dev ## bring Python and C into the house format
	$(VENV)/ruff check --quiet --fix-only .
	$(VENV)/ruff format .
	$(C_FILES) 'apps/*.[ch]' | xargs -r $(VENV)/clang-format -i

bench: ready programs ## all programs of benchmarks/, one after another
	@failed=''; for program in $$(find benchmarks -maxdepth 1 -type f -executable | sort); do \
		echo "# $$program"; PATH="$(CURDIR)/$(VENV):$$PATH" $(VENV)/python benchmarks/alone.py $$program || failed="$$failed $$program"; \
	done; [ -z "$$failed" ] || { echo "make bench: failed:$$failed" >&2; exit 1; }

figures: ready ## every row of the papers on one page, out/gallery.html: measured (RUNS=...), modelled, or why absent
	@mkdir -p out
	@$(POLLSCOPE) gallery $(RUNS) --out out/gallery.html

fuzz: ready-dev ## CROSSINGS faults into runs whose features meet, broken outputs into every parser and broken runs into the commands, FUZZ_SECONDS each
	$(PYTEST) tests/test_crossings.py --crossings $(CROSSINGS)
	$(VENV)/python tests/fuzz/fuzz_parsers.py --seconds $(FUZZ_SECONDS)
	$(VENV)/python tests/fuzz/fuzz_runs.py --seconds $(FUZZ_SECONDS)

vm-test: ready-vm programs ## up, run, pull the plug, compare, down on a pair of virtual machines (root, network, QEMU)
	@$(VENV)/python tests/vm/vm_test.py $(if $(STEPS),--steps $(STEPS)) $(POLLSCOPE)

vm-roles-test: ready-vm programs ## every role of the playbooks comes and goes in a virtual machine (root, network, QEMU)
	@$(VENV)/python tests/vm/vm_test.py --roles $(POLLSCOPE)

lock: ready-dev ## write requirements.lock and requirements-dev.lock again, with newer versions where allowed
	$(UV_COMPILE) --upgrade --extra build -o requirements.lock pyproject.toml
	$(UV_COMPILE) --upgrade --all-extras -c requirements.lock -o requirements-dev.lock pyproject.toml

clean: ## remove what was built and installed below this folder; results stay
	rm -rf --one-file-system build build-asan out .venv .cache pollscope.egg-info

clean-host: ## restore what the set-up changed on this host for measuring (hugepages); packages stay
	@playbooks/bootstrap --clean-host

ready:
	@playbooks/bootstrap

ready-vm:
	@playbooks/bootstrap --vm

ready-dev:
	@playbooks/bootstrap --dev

users-programs: TARGET := users-programs
users-programs: programs

programs:
	@grep -qsF '$(CURDIR)/apps' build/build.ninja || { rm -rf build; meson setup build apps && echo "set-up: compiling (about a minute)"; } # also in a checkout that was moved
	@ninja -C build --quiet $(TARGET)
