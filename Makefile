# run    start drover in the foreground with config/drover.toml: http://127.0.0.1:8080/
# top    watch that drover live in the terminal; q quits
# test   every test
# check  formatting, lints and documentation, warnings denied
# bench  drover beside nginx and h2o, and its engine beside libraries; options: make bench BENCH="--rows return,1k --rounds 3"
#        streams beside nginx and haproxy; options: make bench BENCH_STREAMS="--rows messages,bulk-64"
# soak   a thousand reloads under load; options: make soak SOAK="--reloads 200 --seed 7"
# chaos  clients while workers are killed, configs reloaded, disks filled; options: make chaos CHAOS="--seconds 600 --seed 7"
# fuzz   each fuzz target for a while; options: make fuzz SECONDS_EACH=600
# install  binary, config, and what systemd and logrotate want; options: make install prefix=/usr DESTDIR=/tmp/stage

SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
.DEFAULT_GOAL := run
.PHONY: run top test check bench soak chaos fuzz install uninstall

BENCH ?=
BENCH_STREAMS ?=
SOAK ?=
CHAOS ?=
SECONDS_EACH ?= 30

# An optimised build takes a minute or two the first time; cargo shows how far it is.
run:
	@cargo build --release -p drover-daemon
	@exec target/release/drover run -c config/drover.toml

# The terminal viewer is a workspace of its own; `drover top` looks for it beside drover.
TOP_CRATE = --manifest-path crates/top/Cargo.toml --target-dir target/top

top:
	@cargo build --release -p drover-daemon
	@cargo build --release $(TOP_CRATE)
	@install target/top/release/drover-top target/release/drover-top
	@exec target/release/drover top -c config/drover.toml

# The tests start the real binary: it is built before they are. The last line adds up all results.
test:
	@cargo build --workspace
	@cargo build $(TOP_CRATE)
	@{ cargo test --workspace --no-fail-fast && cargo test --no-fail-fast $(TOP_CRATE) && $(call http_tests,poll) && $(call http_tests,select); } 2>&1 \
	    | awk -f tests/total.awk

# The tests of HTTP once more, with another backend.
http_tests = DROVER_BACKEND=$(1) cargo test --no-fail-fast -p drover-http --test '*' \
    && DROVER_BACKEND=$(1) cargo test --no-fail-fast -p drover-tests $(addprefix --test ,$(HTTP_TESTS))
HTTP_TESTS := files header_timeout keep_alive malformed

check:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo fmt --manifest-path crates/top/Cargo.toml --check
	cargo clippy $(TOP_CRATE) --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items

bench:
	@cargo build --quiet --release -p drover-daemon
	@cargo build --quiet -p drover-tests
	@DROVER=target/release/drover target/debug/bench $(BENCH)
	@DROVER=target/release/drover target/debug/bench_streams $(BENCH_STREAMS)
	@DROVER=target/release/drover target/debug/set_up
	@cargo bench --quiet -p drover-event --features bench-internals

soak:
	@cargo build --quiet --workspace
	@target/debug/soak $(SOAK)

chaos:
	@cargo build --quiet --workspace
	@target/debug/chaos $(CHAOS)

# cargo-fuzz wants a nightly compiler only for its flags: the stable one has them behind this variable.
fuzz: export RUSTC_BOOTSTRAP = 1
fuzz:
	@cargo fuzz --version >/dev/null 2>&1 || env -u RUSTC_BOOTSTRAP cargo install --locked cargo-fuzz
	@cd tests; for target in $$(cargo fuzz list); do \
	    echo "fuzzing $$target for $(SECONDS_EACH) s"; \
	    mkdir -p fuzz/corpus/$$target fuzz/seeds/$$target; \
	    cargo fuzz run $$target fuzz/corpus/$$target fuzz/seeds/$$target -- -max_total_time=$(SECONDS_EACH) || exit 1; \
	done

# Configs that are there stay as they are. With BINARY=FILE nothing is built: that file is installed, and drover-top
# if it lies beside it.
prefix ?= /usr/local
sysconfdir ?= /etc
DESTDIR ?=
BINARY ?=
INSTALLED = $(or $(BINARY),target/release/drover)
# The files under systemd/ name the places that distributions use.
PLACED = sed -e 's|/usr/|$(prefix)/|g' -e 's|/etc/|$(sysconfdir)/|g'
PLACES = $(prefix)/lib/systemd/system/drover.service=drover.service \
    $(prefix)/lib/systemd/system/drover.socket=drover.socket \
    $(prefix)/lib/sysusers.d/drover.conf=sysusers.conf $(prefix)/lib/tmpfiles.d/drover.conf=tmpfiles.conf \
    $(sysconfdir)/logrotate.d/drover=logrotate.conf
WELCOME = $(prefix)/share/drover/welcome

install:
ifeq ($(BINARY),)
	@cargo build --release -p drover-daemon
	@cargo build --release $(TOP_CRATE)
	@install target/top/release/drover-top target/release/drover-top
endif
	install -D -m 755 $(INSTALLED) $(DESTDIR)$(prefix)/bin/drover
	@if [ -e $(dir $(INSTALLED))drover-top ]; then echo "drover-top -> $(DESTDIR)$(prefix)/bin/drover-top"; \
	    install -D -m 755 $(dir $(INSTALLED))drover-top $(DESTDIR)$(prefix)/bin/drover-top; fi
	install -d $(DESTDIR)$(WELCOME) && install -m 644 config/welcome/* $(DESTDIR)$(WELCOME)
	@for place in $(PLACES); do \
	    echo "systemd/$${place#*=} -> $(DESTDIR)$${place%%=*}"; \
	    $(PLACED) "systemd/$${place#*=}" | install -D -m 644 /dev/stdin "$(DESTDIR)$${place%%=*}" || exit 1; \
	done
	@config="$(DESTDIR)$(sysconfdir)/drover/drover.toml"; if [ -e "$$config" ]; then echo "$$config stays as it is"; \
	    else $(PLACED) systemd/drover.toml | install -D -m 644 /dev/stdin "$$config"; fi
	@echo "then, as root: systemd-sysusers && systemctl daemon-reload && systemctl enable --now drover"

# The config stays.
uninstall:
	rm -rf $(DESTDIR)$(prefix)/bin/drover $(DESTDIR)$(prefix)/bin/drover-top $(DESTDIR)$(prefix)/share/drover
	rm -f $(foreach place,$(PLACES),$(DESTDIR)$(firstword $(subst =, ,$(place))))
