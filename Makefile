# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# One more than a small machine has cores: tests of fleets wait for processes of their own.
JOBS ?= 3

.PHONY: demo test soak system lint site bench homeassistant deb deb-trial converters clean

# One environment for all targets; remade only when what it is made from changes.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "ProtoFleet needs Python 3.11 or later; set PYTHON=/path/to/python3.11"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "could not make a virtual environment: install your system's python3-venv package"; exit 1; }
	@echo "installing ProtoFleet and its tools into $(VENV) (once)"
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[all]'
	@touch $@

demo: $(READY)
	@$(BIN)/protofleet demo

# What pip cannot bring: the broker that a fleet's tests talk to, a browser and Node.js for the web client's, the
# Prometheus that scrapes a fleet (19 MB to fetch, 96 MB on disk), ffmpeg and GStreamer, which serve streams as
# cameras do, and PostgreSQL's server, which tests start in folders of their own (17 MB to fetch, 60 MB on disk);
# and what compiles the client in C++.
# A package that brings a service must not start it here: while apt runs, policy-rc.d says no (Debian's own way).
SYSTEM := mosquitto chromium nodejs npm prometheus ffmpeg postgresql python3-gi gir1.2-gst-rtsp-server-1.0 \
	gstreamer1.0-plugins-good gstreamer1.0-plugins-ugly g++ nlohmann-json3-dev
POLICY := /usr/sbin/policy-rc.d
system:
	@missing=""; for package in $(SYSTEM); do \
		case $$package in python3-*|gir1.2-*|gstreamer1.0-*|*-dev) dpkg -s $$package >/dev/null 2>&1 || missing="$$missing $$package"; continue;; esac; \
		program=$$package; test $$package = nodejs && program=node; test $$package = postgresql && program=postgres; \
		PATH="$$PATH:/usr/sbin:/usr/local/sbin:/opt/homebrew/sbin:$$(echo /usr/lib/postgresql/*/bin | tr ' ' :)" command -v $$program >/dev/null || missing="$$missing $$package"; \
	done; \
	if [ -z "$$missing" ]; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "installing through apt (once):$$missing"; \
		if [ ! -e $(POLICY) ]; then trap 'rm -f $(POLICY)' EXIT; printf '#!/bin/sh\nexit 101\n' > $(POLICY) && chmod +x $(POLICY); fi; \
		(apt-get -qq install -y --no-install-recommends $$missing || { apt-get -qq update && apt-get -qq install -y --no-install-recommends $$missing; }) >/dev/null 2>&1 \
		|| echo "not installed:$$missing: tests that need them are skipped"; \
	else echo "not installed:$$missing: tests that need them are skipped; install your system's packages"; fi

test: $(READY) system
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

# A live fleet under fire: half an hour of kill -9, cut lines, full disks and worse.
soak: $(READY) system
	@$(BIN)/protofleet soak

lint: $(READY)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

# Every payload of ours through Home Assistant's own schemas, and then Home Assistant itself beside a mosquitto, in
# an environment of its own (400 MB): writes tests/data/homeassistant/payloads.json, which the tests hold the code to.
HOMES := .venv-homeassistant
$(HOMES)/.ready:
	@$(PYTHON) -m venv $(HOMES)
	@echo "installing Home Assistant into $(HOMES) (once)"
	@$(HOMES)/bin/pip install --quiet --disable-pip-version-check homeassistant==2024.3.3 paho-mqtt==1.6.1 janus==1.0.0
	@touch $@

homeassistant: $(READY) $(HOMES)/.ready
	@PYTHONPATH=. $(BIN)/python tools/homes.py
	@$(HOMES)/bin/python tools/homes.py check
	@$(HOMES)/bin/python tools/homes.py live

# All documents as a site, in site/; any warning is an error.
site: $(READY)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet && echo "site/index.html"

# Five networks in other people's runtimes, on 1,000 samples each of data that PROTOFLEET_DATA holds: OpenVINO, and
# TFLite in an environment of its own (2.3 GB).
CONVERTERS := .venv-converters
$(CONVERTERS)/.ready:
	@$(PYTHON) -m venv $(CONVERTERS)
	@echo "installing onnx2tf and TensorFlow into $(CONVERTERS) (once)"
	@$(CONVERTERS)/bin/pip install --quiet --disable-pip-version-check onnx2tf==1.29.24 tensorflow-cpu==2.19.1
	@touch $@

converters: $(READY) $(CONVERTERS)/.ready
	@PYTHONPATH=. $(BIN)/python tools/converters.py write openvino
	@$(CONVERTERS)/bin/python tools/converters.py tflite table

bench: $(READY)
	@$(BIN)/protofleet bench codec
	@$(BIN)/protofleet bench lab

# Debian packages of device and coordinator for this machine's architecture and Python, each with an environment of its
# own: needs debhelper, dh-virtualenv and python3-venv. What its owner's settings tell pip holds there, too.
DEBS := build/deb
deb:
	@command -v dh_virtualenv >/dev/null || { echo "install debhelper, dh-virtualenv and python3-venv first"; exit 1; }
	@rm -rf $(DEBS)/source $(DEBS)/protofleet* && mkdir -p $(DEBS)/source
	@tar -c --exclude=__pycache__ pyproject.toml constraints.txt README.md LICENSE CHANGELOG.md \
		protofleet edge_agent coordinator export simulators docs deploy | tar -x -C $(DEBS)/source
	@mv $(DEBS)/source/deploy/debian $(DEBS)/source/debian
	@cd $(DEBS)/source && PIP_CONFIG_FILE="$${PIP_CONFIG_FILE:-$$HOME/.config/pip/pip.conf}" \
		dpkg-buildpackage --build=binary --no-sign >../build.log 2>&1 || { tail -30 ../build.log; exit 1; }
	@ls -sh $(DEBS)/*.deb

# As root: both packages in a Debian of their own (debootstrap, once), started there, looked at, and taken away again.
# No service of this machine is touched. The packages carry no torch, so their fleet is given its extractor.
deb-trial: $(READY)
	@$(BIN)/protofleet extractor random --size 32 --fleet orchard --out $(DEBS)/extractor.pfb >/dev/null
	@$(BIN)/python tools/installation.py $(DEBS)

clean:
	rm -rf $(VENV) $(HOMES) $(CONVERTERS) build dist site *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
