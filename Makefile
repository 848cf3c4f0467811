# weir: `make demo` shows it, `make test` proves it. Every target installs what it needs (Debian, as root) or says what
# is missing; on a machine that has everything nothing is installed and no network is used. Building is all that must be
# possible: a test whose program is missing skips itself and is named at the end.

CARGO ?= cargo
FOR   ?= 20s
export PREFIX DESTDIR

.PHONY: help setup setup-demo setup-test demo build install deb test model miri test-python test-api test-torch test-nic test-dpdk interop fresh fresh-install fresh-container bench bench-sim bench-management figures docs deny lint clean

help:
	@echo 'make demo    build weir and let it switch between virtual hosts for $(FOR); ends with a verdict'
	@echo 'make test    build and run every test'
	@echo 'make model   what lcores and readers share, in every order a processor may show it (loom)'
	@echo 'make miri    SIMD kernels and what threads share, in an interpreter that finds undefined behaviour (Miri)'
	@echo 'make test-python   sweeps on Ray, tables and plots of contrib/python, with packages from PyPI in target/python'
	@echo 'make test-torch   the torch.distributed back end of contrib/inc beside gloo (python3-torch)'
	@echo 'make test-api   a generated client and schemathesis against the management API, with packages from PyPI in target/api'
	@echo 'make test-nic   weir on the drivers of NICs that QEMU emulates (root, docs/testing.md)'
	@echo 'make test-dpdk  weir on DPDK 23.11 and 24.11, of other distributions (root, docs/testing.md)'
	@echo 'make fresh   both of them on a bare Debian 12, made for that: as root and not, with and without llvm-14-dev'
	@echo 'make install  program, manual pages, completions, unit, configurations under PREFIX (/usr/local), with DESTDIR in front'
	@echo 'make deb     the same as a Debian package, target/deb/weir_*.deb (docs/install.md)'
	@echo 'make fresh-install   the package on a bare Debian 12: installed, started, taken away (root, minutes)'
	@echo 'make fresh-container   the Containerfile, built on a bare Debian 12 and the demo run in it (root, minutes)'
	@echo 'make build   the optimised program, target/release/weir'
	@echo 'make bench   weir beside testpmd and OVS-DPDK, and the speed of simulation (docs/performance.md)'
	@echo 'make bench-management   what looking at a switch costs it (docs/management.md)'
	@echo 'make figures  the published tables beside what weir makes of them, figures/index.html'
	@echo 'make docs    the documents as a site, target/book/index.html (mdbook)'
	@echo 'make deny    advisories, licences and sources of dependencies (cargo-deny)'
	@echo 'make lint    formatting, clippy, rustdoc, licences of dependencies'
	@echo 'make setup   install what any of these, and the tools of docs, need'
	@echo 'make clean   remove what was built'

setup:
	@scripts/need cargo build test bench tools

setup-demo:
	@scripts/need cargo build

setup-test: setup-demo
	@scripts/need --try test

build: setup-demo
	WEIR_BUILD=$$(scripts/version) $(CARGO) build --release --locked -p weir

# Not built here: as root there may be no Rust. `make && sudo make install`.
install:
	@test -x target/release/weir || { echo 'Nothing to install: make build' >&2; exit 1; }
	@scripts/install target/release/weir

deb: build
	@scripts/need deb
	@scripts/deb target/release/weir target/deb

demo: build
	target/release/weir lab --for $(FOR)

# One profile for the tests and the program they start; every failure is shown, not only the first.
test: setup-test
	@CARGO='$(CARGO)' scripts/test

# Tries every order in which threads may see each other's writes, which takes minutes. Needs neither DPDK nor root.
model:
	RUSTFLAGS='--cfg weir_loom' $(CARGO) test --locked -p weir-dataplane --lib --target-dir target/model model_

# What holds `unsafe` and calls nothing foreign, and what lcores and readers share, interpreted: undefined behaviour and data races end
# it. Minutes; wants `rustup toolchain install nightly --component miri`.
miri:
	RUSTFLAGS='-C target-feature=+avx2,+f16c,+vpclmulqdq' MIRIFLAGS=-Zmiri-disable-isolation $(CARGO) +nightly miri test --locked \
		-p weir-inc -p weir-endpoint -p weir-dataplane --lib --target-dir target/miri -- \
		kernels::tests::avx2 kernels::tests::what_does roce::icrc published:: switch::channels

# Ray, pandas and matplotlib are 800 MB, so `make test` has these tests where they have been got before.
test-python: setup-demo
	CARGO='$(CARGO)' scripts/test-python

test-torch: setup-demo
	@scripts/need torch
	$(CARGO) test --locked -p weir --test scripts -- --nocapture the_back_end_of_torch

# 150 MB from PyPI: `make test` has it where they have been got before.
test-api: setup-demo
	CARGO='$(CARGO)' scripts/test-api

# Boots guests without KVM, so it takes long, and root: not part of anything else. NICS="e1000e igb": not all.
test-nic: setup-demo
	@scripts/need nic
	$(CARGO) build --locked -p weir
	weir/tests/nic/run $(NICS)

# Bare roots of other distributions: root, mmdebstrap, and a quarter of an hour for each. SUITES="noble": not both.
test-dpdk:
	@scripts/need fresh
	scripts/test-dpdk $(SUITES)

# Guests with stock soft-RoCE sum through the switch: root, Debian 12, and 20 minutes the first time.
interop: setup-demo
	interop/setup
	$(CARGO) build --locked -p weir
	interop/inc
	interop/others

# Takes root, mmdebstrap and an hour: not part of anything else.
fresh:
	@scripts/need fresh
	scripts/fresh

# Takes root and mmdebstrap.
fresh-install: deb
	@scripts/need fresh
	scripts/fresh-install target/deb/weir_*.deb

# Takes root, mmdebstrap and buildah. PROFILE=release: as it is shipped.
fresh-container:
	@scripts/need container
	scripts/fresh-container $(PROFILE)

bench: build
	@scripts/need bench
	bench/side-by-side
	bench/sim

# Simulation alone: needs neither DPDK nor root.
bench-sim:
	bench/sim

# Tables and drawings; fails if a value is outside its tolerance. Needs neither DPDK nor root.
figures:
	$(CARGO) run --release --locked -p weir-sim --example figures -- figures

bench-management: build
	bench/management

# The documents as a site; the first page is README.
docs:
	@scripts/docs

# Known holes of dependencies, for which it fetches a list; whether they may be used; where they come from: deny.toml.
deny:
	@command -v cargo-deny >/dev/null || { echo 'cargo-deny is missing: cargo install cargo-deny --locked' >&2; exit 1; }
	$(CARGO) deny check

# clippy and rustdoc compile the workspace twice more, which takes minutes.
lint: setup-demo
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --no-deps --locked
	$(CARGO) test --locked -p weir-layout --test licences

clean:
	$(CARGO) clean
