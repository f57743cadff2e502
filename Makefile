# Every target sets up what it needs, once: .venv with the pinned packages, and the GL library.
# Add flags with ARGS, for example: make train ARGS='--seed 1 --steps 20000'

PYTHON ?=
TASK ?= maze_umaze
CONFIGS ?= maze clear_maze cpu
ARGS ?=
RUN := .venv/bin/python
export PYTHON
export MUJOCO_GL ?= egl

.PHONY: help setup train test lint format bench demos clean

help:
	@echo 'make train   train RECON on $(TASK) (CONFIGS, TASK and ARGS change that)'
	@echo 'make test    check style and run all tests'
	@echo 'make bench   measure speed (ARGS chooses what)'
	@echo 'make demos   make demonstrations of $(TASK)'
	@echo 'make format  bring the code into shape'
	@echo 'make setup   only set up; every other target does so by itself'
	@echo 'make clean   remove .venv and caches; runs and demonstrations stay'

setup:
	@bash scripts/setup.sh

train: setup
	$(RUN) scripts/train.py --configs $(CONFIGS) --task $(TASK) $(ARGS)

# Both parts run side by side, a core each; the second's output is shown when the first has ended.
# A 5 says that ARGS left no test in that part.
test: setup lint
	@bash scripts/setup.sh tests
	@log=$$(mktemp); $(RUN) -m pytest tests/tensorflow $(ARGS) >$$log 2>&1 & second=$$!; \
	trap 'kill $$second; rm -f $$log' INT TERM; \
	$(RUN) -m pytest tests $(ARGS); first=$$?; \
	wait $$second; second=$$?; \
	echo 'tests/tensorflow, beside them:'; cat $$log; rm -f $$log; \
	case $$first,$$second in 0,0|0,5|5,0) ;; *) exit 1;; esac

lint: setup
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .

format: setup
	$(RUN) -m ruff check --fix .
	$(RUN) -m ruff format .

bench: setup
	$(RUN) scripts/bench.py $(ARGS)

demos: setup
	$(RUN) scripts/demos.py --task $(TASK) --outdir demos/$(TASK) $(ARGS)

clean:
	rm -rf .venv .pytest_cache .ruff_cache dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
