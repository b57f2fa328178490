# `make test` installs what the tests need and runs them; `make quick` is for the inner loop; `make check` is what a change must
# pass (.ci/run is the part of it with one build). Tests, command line and wheel are built with one profile, so that everything is
# compiled once.

.PHONY: test quick test-rust test-slow test-python test-torch-current test-cluster test-install test-browser wheel fmt lint doc site site-links public-api sbom release deny check demo reference bench bench-compare bench-short bench-micro bench-serve instructions parity trust faults fuzz sanitise

# All but the benchmarks, which bring Criterion along. The same packages and targets everywhere: others would choose
# other features of shared dependencies, and compile them again.
PACKAGES = --workspace --exclude offspan-bench --locked
TARGETS = --lib --bins --tests

test: test-rust test-python test-browser

# For the inner loop: the unit tests of every crate.
quick:
	cargo test $(PACKAGES) --lib

test-rust:
	python3 tools/rust_tests.py

# Fits that are killed again and again, for minutes. (`make faults` takes longer.)
test-slow:
	python3 tools/rust_tests.py --slow killed

# Attacked, starved, killed (docs/trust.md): every call to the system fails once, hard numbers through every method, files
# that are locked or shrink, too little memory, files of earlier versions, fuzzing, and what sanitisers and Miri can see.
trust: faults
	cargo test $(PACKAGES) --lib -- never_two many_writers shrinks
	cargo test $(PACKAGES) --test hostile --test fuzz_inputs --test formats --test cli -- --nocapture ten_thousand every_ whatever_ version lock starv foreign
	$(MAKE) fuzz
	$(MAKE) sanitise

# Every call to the system of every command that writes, spoilt in every way; prints a table. Needs cc, on Linux on x86-64.
faults:
	cargo test $(PACKAGES) --test faults -- --ignored --nocapture

# Every reader with coverage, by libFuzzer: make fuzz SECONDS=600. Needs g++; the first build takes some minutes.
SECONDS ?= 600
fuzz:
	python3 tools/fuzz.py --seconds $(SECONDS)

# ThreadSanitizer and Miri, as far as the compilers here have them.
sanitise:
	python3 tools/sanitise.py

# The wheel in target/wheels, for every Python from 3.9 on.
wheel:
	python3 python/tools/build_wheel.py

# In fresh environments: one with NumPy and scikit-learn, one with PyTorch where it can be had, one with ONNX Runtime.
test-python:
	cargo build $(PACKAGES) $(TARGETS)
	python3 python/tools/run_tests.py

# Native PyTorch modules with the newest PyTorch, compiled and exported, too: a download of 6 GB, unless OFFSPAN_TORCH_PYTHON
# names an interpreter that has it.
test-torch-current:
	cargo build $(PACKAGES) $(TARGETS)
	python3 python/tools/run_tests.py --only torch-current

# Every engine of clusters, each in an environment of its own, on every pack: half an hour.
test-cluster:
	cargo build $(PACKAGES) $(TARGETS)
	python3 python/tools/run_tests.py --only cluster

# The way of `pip install ./python`, in a clean environment.
test-install:
	python3 python/tools/check_install.py

# The pages of reports and studies in a real browser: Chromium, which is installed where it can be.
test-browser:
	cargo build $(PACKAGES) $(TARGETS)
	python3 -m unittest discover -s tests/browser

fmt:
	cargo fmt --all --check

lint:
	cargo clippy --workspace --all-targets --locked -- -D warnings
	python3 python/tools/lint.py

doc:
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked

# The documentation as a web site, with the Rust and Python references, in target/site.
site: doc
	cargo build $(PACKAGES) $(TARGETS)
	python3 tools/docs_site.py

# Its pages alone: every link between them, and every anchor, must lead somewhere.
site-links:
	python3 tools/docs_site.py --no-references

# The names that users of the library rely on, against api/offspan.txt: make public-api PUBLIC_API=--update writes it anew.
public-api:
	python3 tools/public_api.py $(PUBLIC_API)

# Every component of what is shipped, as CycloneDX.
sbom:
	python3 tools/sbom.py offspan-cli -o target/offspan-cli.cdx.json
	python3 tools/sbom.py offspan-python -o target/offspan-python.cdx.json

# Wheels, sdist and binaries, checked in clean environments: make release RELEASE=--twice
release:
	python3 tools/release.py $(RELEASE)

# Licences, advisories and duplicate versions; needs `cargo install cargo-deny`.
deny:
	cargo deny check

check: fmt lint test test-slow test-install doc site-links demo

demo:
	cargo run --release --locked -- demo

# The plain NumPy float64 reference against golden scores and packs: make reference PACK=folder
VENV ?= .venv
$(VENV)/bin/python:
	python3 -m venv $(VENV)
	$(VENV)/bin/pip install --quiet numpy safetensors

reference: $(VENV)/bin/python
	cargo build --release --locked
	$(VENV)/bin/python bench/reference/compare_pack.py $(PACK) --offspan target/release/offspan

# offspan beside its peers (bench/README.md): make bench BENCH="--imagenet"
bench:
	python3 bench/run.py $(BENCH)

# The last runs side by side, by what they found for every bar: make bench-compare RUNS=6
bench-compare:
	python3 bench/compare/history.py bench/results/history.jsonl $(RUNS)

bench-short:
	python3 bench/run.py --short $(BENCH)

# The inner loops alone, with Criterion: make bench-micro BENCH=cosines
bench-micro:
	cargo bench --locked -p offspan-bench --bench kernels -- $(BENCH)

# The server beside the library and MLServer, and under faults: make bench-serve BENCH="--only reloads"
bench-serve:
	cargo build --release --locked -p offspan-cli
	cargo build --release --locked -p offspan-server --example load
	python3 bench/serve.py $(BENCH)

# Every method that can be exported, in ONNX Runtime, rten and PyTorch, against the library on packs, as tables. Needs the
# environments of `make test-python`: make parity PACKS="folder folder"
parity:
	python3 python/tools/parity.py $(PACKS)

# Instructions of the hottest loops against bench/instructions.json; needs valgrind. To store new counts:
# make instructions INSTRUCTIONS=--update
instructions:
	python3 bench/instructions.py $(INSTRUCTIONS)
