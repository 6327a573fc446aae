# `make` alone says what there is. Everything listens on 127.0.0.1 only.

# A fresh installation of Rust is not on the PATH of shells that were open before.
export PATH := $(PATH):$(HOME)/.cargo/bin
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
TIDEMARK := $(TARGET_DIR)/demo/tidemark
# Tests use containers where a Docker engine answers; the program that is shipped carries none of that.
WITH_DOCKER := --features dev-stack/docker
TEST_FEATURES = $(if $(shell docker info >/dev/null 2>&1 && echo yes),$(WITH_DOCKER))

.DEFAULT_GOAL := help
.PHONY: help demo up down clean test faults chaos hostile bench instructions counted version-before pressure sabotage sdk python spark conformance page page-built page-pictures page-tools schema fmt lint ci quick release toolchain openssl valgrind python3 install-python venv install-venv pip chromium install-chromium

help:
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: quick ## set up what is missing, start everything, load real messages, audit, show the result
	@$(TIDEMARK) demo

up: quick ## start what is not running, and wait until it is ready
	@$(TIDEMARK) stack up

# What stops a stack is not built for that, if it is there: the source may not compile.
stop_with = $(if $(wildcard $(TIDEMARK)),,$(MAKE) --no-print-directory quick &&) $(TIDEMARK)

down: ## stop everything; the data stay
	@if [ -d .run ]; then $(stop_with) stack down; else echo 'nothing runs here'; fi

clean: ## stop everything and drop its data
	@if [ -d .run ]; then $(stop_with) stack clean; else echo 'there are no data here'; fi

# Brokers of tests live for minutes: Java is to compile fast, not well.
test faults chaos hostile sabotage: export JDK_JAVA_OPTIONS := -XX:TieredStopAtLevel=1

# Tests wait for servers more than they compute.
test: export RUST_TEST_THREADS := 4
test faults: export TMPDIR := $(or $(shell tests/dev-stack/data-in-memory),$(TMPDIR),/tmp)

# The program is built along with the tests, whose dependencies have more features: by itself it would be built twice.
test: toolchain ## run all tests against servers of their own, but only a twelfth of the fault tests, which the number of commits chooses
	@cargo build --locked --workspace --all-targets $(TEST_FEATURES)
	@skipped=$$(tests/system/skipped-faults $(TEST_FEATURES)) && \
		$(TARGET_DIR)/debug/tidemark stack exec -- cargo test --locked --workspace $(TEST_FEATURES) -- --exact $$skipped

faults: toolchain ## run all fault tests: what a release has to pass
	@cargo build --locked --workspace --all-targets $(TEST_FEATURES)
	@cargo test --locked --workspace $(TEST_FEATURES) --test faults

chaos: toolchain $(if $(BEFORE),version-before) ## inject faults into a cluster for MINUTES=10, of FAULTS=a,b or all, drawn from CHAOS_SEED=n; REDIS_CLUSTER=1 on one; BEFORE=<commit> upgrades from it
	@cargo build --locked --package tidemark --package system-tests --bins $(TEST_FEATURES)
	@$(TARGET_DIR)/debug/chaos --minutes $(or $(MINUTES),10) $(if $(FAULTS),--faults $(FAULTS)) $(if $(filter 1,$(REDIS_CLUSTER)),--redis-cluster) $(if $(BEFORE),--before $(TARGET_DIR)/before/target/debug/tidemark)

hostile: release ## try each way in which accounts could cost others something for SECONDS=15, then all at once for MINUTES=2; ONLY=a,b or all
	@cargo build --locked --release --package system-tests --bins
	@$(TARGET_DIR)/release/hostile $(if $(SECONDS),--seconds $(SECONDS)) $(if $(MINUTES),--together $(MINUTES)) $(if $(ONLY),--only $(ONLY))

version-before: toolchain
	@git worktree add --detach --force $(TARGET_DIR)/before/tree $(BEFORE)
	@cargo build --locked --package tidemark --manifest-path $(TARGET_DIR)/before/tree/Cargo.toml --target-dir $(TARGET_DIR)/before/target; \
		built=$$?; git worktree remove --force $(TARGET_DIR)/before/tree; exit $$built

pressure: release ## take MariaDB, then Redis away for SECONDS=600 at RATE=2000 messages a second, and measure
	@cargo build --locked --release --package system-tests --bins
	@$(TARGET_DIR)/release/pressure $(if $(SECONDS),--seconds $(SECONDS)) $(if $(RATE),--rate $(RATE))

bench: release python3 ## measure each stage against the raw part that it sits on, ONLY=a,b or all, ARGS=--rounds=5
	@cargo build --locked --release --package bench
	@$(TARGET_DIR)/release/bench $(if $(ONLY),--only $(ONLY)) $(ARGS)

instructions: counted ## count what the pure parts execute, against a baseline; ACCEPT=1 updates the baseline
	@command -v valgrind >/dev/null || $(MAKE) --no-print-directory valgrind
	@$(TARGET_DIR)/release/instructions $(if $(filter 1,$(ACCEPT)),--accept)

counted: toolchain
	@cargo build --locked --release --package pure-parts

sabotage: toolchain ## show that tests and chaos notice a program that is broken on purpose, ONLY=name or each in turn
	@tests/sabotage/run $(ONLY)

# The same build as that of `make test`: of the programs alone it would be another one, since tests add features.
# Brings Node where there is none.
with_node = .ci/with-node '$(TARGET_DIR)/tools/node' sh -c
python_tools = $(abspath $(TARGET_DIR))/tools/sdk-python
spark_tools = $(abspath $(TARGET_DIR))/tools/spark
with_program = TIDEMARK='$(abspath $(TARGET_DIR))/debug/tidemark'

sdk: toolchain ## build sdk/typescript, and test it on a stack of its own
	@cargo build --locked --workspace --all-targets $(TEST_FEATURES)
	@$(with_program) $(with_node) 'cd sdk/typescript && npm ci --no-audit --no-fund && npm run build && npm test'

# The tests import the wheel, not the sources.
python: toolchain venv ## build the wheel of sdk/python, and test it on a stack of its own; OPENAPI_SECONDS=60 is how long each service is tried
	@cargo build --locked --workspace --all-targets $(TEST_FEATURES)
	@python3 -m venv '$(python_tools)' && '$(python_tools)/bin/pip' install --quiet --requirement sdk/python/tests/requirements.txt
	@rm -rf '$(python_tools)/wheel' && '$(python_tools)/bin/pip' wheel --quiet --no-deps --wheel-dir '$(python_tools)/wheel' ./sdk/python
	@'$(python_tools)/bin/pip' install --quiet --no-deps --force-reinstall '$(python_tools)'/wheel/*.whl && '$(python_tools)/bin/pip' check
	@cd sdk/python && '$(python_tools)/bin/ruff' check --no-cache && '$(python_tools)/bin/ruff' format --no-cache --check && \
		'$(python_tools)/bin/mypy' --cache-dir '$(python_tools)/mypy' && \
		PYTHONDONTWRITEBYTECODE=1 $(with_program) '$(python_tools)/bin/python' -m pytest -p no:cacheprovider

spark: toolchain venv ## test examples/spark on a stack of its own; it needs Java 17, and brings Spark
	@cargo build --locked --workspace --all-targets $(TEST_FEATURES)
	@python3 -m venv '$(spark_tools)' && '$(spark_tools)/bin/pip' install --quiet --requirement examples/spark/requirements.txt
	@rm -rf '$(spark_tools)/wheel' && '$(spark_tools)/bin/pip' wheel --quiet --no-deps --wheel-dir '$(spark_tools)/wheel' ./sdk/python
	@'$(spark_tools)/bin/pip' install --quiet --no-deps --force-reinstall '$(spark_tools)'/wheel/*.whl && '$(spark_tools)/bin/pip' check
	@cd examples/spark && PYTHONDONTWRITEBYTECODE=1 $(with_program) '$(spark_tools)/bin/python' -m pytest -p no:cacheprovider

# With the features of the whole workspace, as the tests have built it.
conformance: toolchain ## run Autobahn's cases against a WebSocket as the gateway's
	@cargo build --locked --workspace --example echo $(TEST_FEATURES)
	@gateway/tests/conformance/run '$(TARGET_DIR)/debug/examples/echo' '$(TARGET_DIR)/tools/kosoku'

# Chromium is Debian's, as is what it needs.
page: page-tools chromium ## test the chat at the gateway's / in Chromium, on a stack of its own
	@cargo build --locked --workspace --all-targets $(TEST_FEATURES)
	@$(with_node) 'cd gateway/page && npm run check-built'
	@$(with_program) $(with_node) 'cd tests/page && npm run check && npm test'

page-built: page-tools ## build the chat from gateway/page and sdk/typescript into the file that is in the program
	@$(with_node) 'cd gateway/page && npm run build'

page-pictures: page-tools chromium ## take the pictures of the chat in docs/
	@cargo build --locked --workspace --all-targets $(TEST_FEATURES)
	@$(with_program) $(with_node) 'cd tests/page && npm run pictures'

page-tools: toolchain
	@$(with_node) 'for each in sdk/typescript gateway/page tests/page; do (cd $$each && npm ci --no-audit --no-fund) || exit; done; cd sdk/typescript && npm run build'

schema: ## lint the .proto files, and look for changes to them that break readers of the topics
	@$(with_node) '.ci/check-schemas'

fmt: toolchain ## format the sources
	@cargo fmt --all

lint: toolchain ## clippy, rustdoc, the rules of which crate may depend on which and the names in the documents, without warnings
	@cargo clippy --locked --workspace --all-targets $(WITH_DOCKER) -- --deny warnings
	@RUSTDOCFLAGS='--deny warnings' cargo doc --locked --no-deps --workspace $(WITH_DOCKER)
	@.ci/check-dependencies
	@.ci/check-walkthrough

ci: ## all that a change must pass
	@.ci/run

# To look at; what is measured or shipped is `release`.
quick: toolchain
	@cargo build --locked --profile demo --package tidemark

release: toolchain
	@cargo build --locked --release --package tidemark

toolchain:
	@case '$(abspath .)' in *' '*) [ -n "$$CARGO_TARGET_DIR" ] || { echo 'librdkafka is not built below a directory with a space in its name: move the clone, or set CARGO_TARGET_DIR' >&2; exit 1; };; esac
	@command -v cargo >/dev/null || { echo 'cargo is missing: install Rust from https://rustup.rs' >&2; exit 1; }
	@command -v cc >/dev/null && command -v c++ >/dev/null || { echo 'a C and C++ compiler is missing: apt-get install build-essential' >&2; exit 1; }
	@pkg-config --exists libssl 2>/dev/null || $(MAKE) --no-print-directory openssl

# What is missing, and the Debian packages that have it: installed by root, named to anybody else.
define install
	@[ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null || { echo '$(1) missing: apt-get install $(2)' >&2; exit 1; }
	@sh compose/native/apt-install.sh $(2)
endef

# librdkafka's TLS is OpenSSL's.
openssl:
	$(call install,the headers of OpenSSL are,libssl-dev pkg-config)

chromium:
	@command -v $(or $(CHROMIUM),chromium) >/dev/null || $(MAKE) --no-print-directory install-chromium

install-chromium:
	$(call install,Chromium is,chromium fonts-dejavu-core)

valgrind:
	$(call install,valgrind is,valgrind)

python3:
	@command -v python3 >/dev/null || $(MAKE) --no-print-directory install-python

install-python:
	$(call install,Python is,python3)

venv: python3
	@python3 -c 'import ensurepip' 2>/dev/null || $(MAKE) --no-print-directory install-venv

install-venv:
	$(call install,the venv of Python is,python3-venv)

# It brings Node, and the runner of Autobahn's cases.
pip:
	$(call install,pip is,python3-pip)
