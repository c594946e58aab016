# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
JOBS ?= 2

.PHONY: demo test system lint bench clean

# One environment for all targets; remade only when what it is made from changes.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "ProtoFleet needs Python 3.11 or later; set PYTHON=/path/to/python3.11"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "could not make a virtual environment: install your system's python3-venv package"; exit 1; }
	@echo "installing ProtoFleet and its tools into $(VENV) (once)"
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[all]'
	@touch $@

demo: $(READY)
	@$(BIN)/protofleet demo

# What pip cannot bring: the broker that most tests of the fleet talk to.
system:
	@if PATH="$$PATH:/usr/sbin:/usr/local/sbin:/opt/homebrew/sbin" command -v mosquitto >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "installing mosquitto through apt (once)"; \
		(apt-get -qq install -y --no-install-recommends mosquitto || { apt-get -qq update && apt-get -qq install -y --no-install-recommends mosquitto; }) >/dev/null 2>&1 \
		|| echo "mosquitto could not be installed: tests that need it are skipped"; \
		service mosquitto stop >/dev/null 2>&1 || true; \
	else echo "mosquitto is not installed: tests that need it are skipped; install your system's package mosquitto"; fi

test: $(READY) system
	@$(BIN)/python -m pytest -n $(JOBS)

lint: $(READY)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

bench: $(READY)
	@$(BIN)/protofleet bench codec
	@$(BIN)/protofleet bench lab

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
