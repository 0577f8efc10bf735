# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
#
# Short names for the CMake presets. Everything is built under build/<preset>.

.DEFAULT_GOAL := help
empty =
comma = ,
MAKEFLAGS += --no-print-directory
JOBS ?= $(shell nproc)
SETUP ?= packaging/setup
ifneq ($(shell command -v ninja),)
export CMAKE_GENERATOR ?= Ninja
endif
# The short form of what takes long, as CI runs it: sanitizers without the examples and without tests in which they find little,
# AddressSanitizer in all modes of make modes at once, ThreadSanitizer for tests that start threads; by nvcc all files with kernels that
# make gpu compiles, for one architecture, by its front end for the device, and two programs to the end.
SHORT ?=
# Where `packaging/setup optional` has put Arrow, KvikIO and a further CCCL, their tests run, too.
optional = $(wildcard $(CURDIR)/build/optional)
# lld links the test programs in a quarter of the time of binutils' ld.
by_lld = $(shell command -v ld.lld > /dev/null && echo -DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=lld)
configure_dev = $(by_lld) -DCUOTA_TEST_LESS=$(if $(SHORT),fuzz) -DCUOTA_TEST_BROWSER=$(if $(filter browser,$(MAKECMDGOALS)),ON,OFF) $(if $(optional),-DCUOTA_PYARROW_ROOT=$(optional)/pyarrow \
    -DCUOTA_KVIKIO_ROOT=$(optional) -DCUOTA_CCCL_MORE=$(optional)/nvidia/cu13/include/cccl)
configure_cuda = -DCMAKE_CUDA_ARCHITECTURES='80-real;90-real;90-virtual'
# More test files that are compiled together take less of the compiler's time, but an edit compiles all of them.
for_sanitizers = -DCUOTA_TEST_BATCH=$(if $(SHORT),48,24) -DCUOTA_TEST_LESS='$(if $(SHORT),$(less)$(1))'
less = gpu;shared_libraries;simulator;third_party
less_by_asan = training;report;interop
fewer = CUOTA_TEST_DIVISOR=16
# AddressSanitizer's build is by clang where it is, so that a second compiler's tests run. At -O0 clang compiles it in two thirds of the time
# that g++ takes at -Og without UndefinedBehaviorSanitizer's checks of pointers; the tests take about twice as long. A folder that another
# compiler has configured needs --fresh: else CMake drops the options of the command line.
by_clang = $(shell mkdir -p build; echo 'int main() {}' | clang++ -fsanitize=address,undefined -x c++ - -o build/has-asan 2> /dev/null \
    && echo "-DCMAKE_CXX_COMPILER=clang++ -DCMAKE_CXX_FLAGS='-O0 -g1'")
# The simulated runtime is never under a sanitizer: AddressSanitizer's build and the fuzzers take that of the build dev.
by_dev = -DCUOTA_SIMULATOR_LIBRARY=$(CURDIR)/build/dev/libcuota-simulator.so
configure_fuzz = $(by_dev)
configure_asan = --fresh $(by_dev) $(by_lld) $(call for_sanitizers,;$(less_by_asan)) -DCUOTA_BUILD_EXAMPLES=$(if $(SHORT),OFF,ON) $(if $(SHORT),-DCUOTA_SANITIZE_LESS=null$(comma)alignment) $(by_clang)
left_out = $(if $(SHORT),echo 'SKIPPED: in the short form of make $@: $(1)')
configure_tsan = $(by_lld) $(call for_sanitizers) $(if $(SHORT),-DCUOTA_TEST_THREADS_ONLY=ON -DCUOTA_BUILD_EXAMPLES=OFF,-DCUOTA_TEST_THREADS_ONLY=OFF -DCUOTA_BUILD_EXAMPLES=ON)
configure = cmake --preset $(1) $(configure_$(1)) > build/$(1).log 2>&1 || { cat build/$(1).log; exit 1; }; grep -a '^-- cuota:' build/$(1).log
build = mkdir -p build; $(call configure,$(1)); cmake --build --preset $(1) --parallel $(JOBS) $(2)
# One more than there are cores: some tests wait for seconds, for a rank that must not come. Those that compile do not wait:
# they say how many.
ctest = ctest --preset $(1) --parallel $(or $(3),$$(($(JOBS) + 1))) $(2)
# A process runs all tests of a file: CTest says neither how many they are nor which were skipped.
told = sed -n 's/^CUOTA_SKIPPED: /SKIPPED: /p' build/$(1)/Testing/Temporary/LastTest.log | sort -u; \
    awk '/^All tests passed [(]/ { tests += $$(NF - 2); checks += substr($$4, 2) } END { print tests + 0 " tests with " checks + 0 " checks in the files above" }' \
    build/$(1)/Testing/Temporary/LastTest.log

.PHONY: help
help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

.PHONY: demo
demo: ## train a small network on a synthetic set, on the GPU if there is one, else on the simulated device
	@$(SETUP) demo
	@$(call build,demo,--target train)
	@grep -q 'runtime CUDA' build/demo.log && echo 'demo: on the GPU' || echo 'demo: on the simulated device (build/demo.log says why)'
	@build/demo/examples/train --timeline build/demo/timeline.html

layers = core runtime resource guard pool buffer data training report
of_layers = ^($(subst $(empty) $(empty),|,$(layers)))$$

.PHONY: test
test: ## build and run the tests of each layer but interop
	@$(SETUP)
	@$(call left_out,three of four rounds of long tests)
	@$(call build,dev,$(layers:%=--target test-%))
	@$(if $(SHORT),env CUOTA_TEST_DIVISOR=4) $(call ctest,dev,--label-regex '$(of_layers)')
	@$(call told,dev)

.PHONY: integration
integration: ## build and run the other tests: interop, examples, whole programs, the simulated runtime, pages, parsers, the model, scripts
	@$(SETUP)
	@$(call left_out,three of four rounds of long tests; parsers on inputs of tests/fuzz$(comma) which make sanitize tries; three of four failing CUDA calls of examples/train after the 40th; half of the models of pools$(comma) and the plain mode of small examples; sources that nvcc for the host refuses)
	@$(call build,dev)
	@$(if $(SHORT),env CUOTA_TEST_DIVISOR=4) $(call ctest,dev,--label-exclude '$(of_layers)|^lint$$')
	@$(call told,dev)

.PHONY: lint
lint: ## the project's own rules
	@$(SETUP)
	@$(call left_out,each header of a folder detail alone$(comma) other headers with definitions; examples by another compiler; the program of docs/ten_minutes.md by CMake and by nvcc)
	@$(call build,dev)
	@$(if $(SHORT),env CUOTA_LINT_SHORT=1) $(call ctest,dev,--label-regex '^lint$$',$(JOBS))

.PHONY: alone
alone: ## every test file compiled with what it includes itself, every header with all definitions in place: five minutes
	@$(SETUP)
	@mkdir -p build; cmake --preset dev -B build/alone -DCUOTA_TEST_BATCH=1 > build/alone.log 2>&1 || { cat build/alone.log; exit 1; }
	@cmake --build build/alone --parallel $(JOBS) --target cuota-test-odr --target tests/snippets/stamp
	@tests/alone.py --commands=build/alone/compile_commands.json --jobs=$(JOBS)
	@tests/lint/headers.py --commands=build/alone/compile_commands.json --forms='in place'

.PHONY: packages
packages: ## cuota in every way that others take it: plain, in one file, by CMake, Conan, vcpkg, pkg-config
	@$(SETUP)
	@tests/packaging/verify --jobs=$(JOBS) $(if $(SHORT),--short)
	@tests/packaging/test_verify --jobs=$(JOBS) $(if $(SHORT),--short)

.PHONY: single
single: ## all of cuota in one header, build/single/cuota.hpp: what a release has beside the packages
	@packaging/single_header build/single/cuota.hpp

# As many seeds as there is time for: make modes SEEDS="1 2 3 4 5 6". A mode changes nothing for tests that call no device, such as
# tests/model. A mode is variables with + between them; the short form has all of them in one run. Where frees do not wait, one that
# comes too early is a race, which ends the program.
SEEDS ?= 1 2
unkind = $(1:%=CUOTA_SIM_UNKIND=%+CUOTA_SIM_RACES=fatal)
modes = $(if $(SHORT),CUOTA_SIM_CHECKS=strict+$(call unkind,all)+CUOTA_SIM_SCHEDULE=late:1, \
    CUOTA_SIM_CHECKS=strict $(call unkind,serial-host free-at-once stale-errors) $(SEEDS:%=CUOTA_SIM_SCHEDULE=late:%))

# LABELS, a regular expression: only tests that have such a label.
LABELS ?=
without_modes = --label-exclude '^(lint|compile_fail|model|scripts|own_modes)$$'

.PHONY: modes
modes: ## the same tests on stricter devices: memory closed to the host; what CUDA leaves open decided otherwise; work as late as it may be, by two seeds
	@$(SETUP)
	@$(call left_out,each mode by itself; the second seed; 15 of 16 rounds of long tests)
	@$(call build,dev)
	@for mode in $(modes); do \
	    echo "==== $$mode"; \
	    env $(if $(SHORT),$(fewer)) $$(echo $$mode | tr + ' ') $(call ctest,dev,$(without_modes) $(if $(LABELS),--label-regex '$(LABELS)')) \
	        || { echo "FAILED with $$mode"; exit 1; }; \
	done

.PHONY: sanitize
sanitize: ## the same tests under AddressSanitizer and UndefinedBehaviorSanitizer, then under ThreadSanitizer
	@$(SETUP)
	@$(call left_out,examples; tests/ $(less)$(comma) and by AddressSanitizer $(less_by_asan)$(comma) which make targets runs in the same modes; 15 of 16 rounds of long tests$(comma) and of failing CUDA calls after the 20th of an operation; AddressSanitizer without modes; whether pointers are null or misaligned; ThreadSanitizer for tests that start no threads)
	@$(if $(by_clang),,echo 'SKIPPED: AddressSanitizer by clang (no clang++ that has it): g++ takes its place')
	@$(call build,dev,--target cuota-simulator)
	@$(call build,asan)
	@$(if $(SHORT),env $(fewer) $(subst +, ,$(modes)) $(call ctest,asan,$(without_modes)),$(call ctest,asan))
	@$(call told,asan)
	@$(call build,tsan)
	@$(if $(SHORT),env $(fewer)) $(call ctest,tsan)
	@$(call told,tsan)

# The suite so many times in each of these forms; SHORT as in make sanitize.
TIMES ?= 6
FORMS ?= plain strict late asan tsan

.PHONY: loaded
loaded: ## the suite again and again while other processes keep the machine busy: hours
	@$(SETUP)
	@$(call build,dev,$(if $(filter plain strict late,$(FORMS)),,--target cuota-simulator))
	@$(if $(filter asan,$(FORMS)),$(call build,asan))
	@$(if $(filter tsan,$(FORMS)),$(call build,tsan))
	@$(if $(SHORT),env $(fewer)) tests/under_load.py --times=$(TIMES) --forms=$(subst $(empty) $(empty),$(comma),$(strip $(FORMS))) $(if $(LABELS),--labels='$(LABELS)')

# Operations of each of four threads, on each of two trees of budgets, and in all on pools; under ThreadSanitizer a tenth
# of that, and a hundredth. Requests of PyTorch's threads: a tenth of it, and a hundredth. Programs of buffers: a hundredth
# of it; snapshots of pools: a thousandth; loaders that end, and forks, of which there are 1000 at most: a ten-thousandth.
# Of tests/programs, whole programs of all layers, a tenth, and under ThreadSanitizer a thousandth; of programs beside an adversary, of
# one thread and of several, a thousandth of each for each kind of device.
STRESS ?= 10000000

.PHONY: stress
stress: ## many threads on one tree of budgets, random walks through pools, random programs of buffers, requests of PyTorch's threads, ends of loaders, programs of all kinds of owners, for long; some under ThreadSanitizer
	@$(SETUP)
	@$(call build,dev,--target test-guard --target test-pool --target test-buffer --target test-report --target test-pytorch --target test-programs)
	CUOTA_STRESS=$(STRESS) build/dev/tests/test-guard '[stress]'
	CUOTA_STRESS=$(STRESS) build/dev/tests/test-pool '[stress]'
	CUOTA_SUFFICING=$$(($(STRESS) / 1000)) build/dev/tests/test-pool '[sufficing_steps]'
	CUOTA_STRESS=$$(($(STRESS) / 10)) build/dev/tests/test-pytorch '[stress]'
	CUOTA_SNAPSHOTS=$$(($(STRESS) / 1000)) build/dev/tests/test-report '[stress]'
	CUOTA_PROGRAMS=$$(($(STRESS) / 100)) CUOTA_SIM_CHECKS=strict build/dev/tests/test-buffer '[programs]'
	CUOTA_STRESS=$$(($(STRESS) / 10)) build/dev/tests/test-programs '[stress]'
	CUOTA_STRESS=$$(($(STRESS) / 10)) CUOTA_SIM_CHECKS=strict build/dev/tests/test-programs '[owners]'
	CUOTA_ADVERSARY=$$(($(STRESS) / 1000)) build/dev/tests/test-programs '[adversary]'
	@$(call left_out,ThreadSanitizer)
	@$(if $(SHORT),,$(stress_under_tsan))

stress_under_tsan = $(call build,tsan,--target test-guard --target test-pool --target test-data --target test-pytorch --target test-programs) || exit; set -x; \
	CUOTA_STRESS=$$(($(STRESS) / 10)) build/tsan/tests/test-guard '[stress]' && \
	CUOTA_STRESS=$$(($(STRESS) / 100)) build/tsan/tests/test-pool '[stress]' && \
	CUOTA_STRESS=$$(($(STRESS) / 100)) build/tsan/tests/test-pytorch '[stress]' && \
	CUOTA_STRESS=$$(($(STRESS) / 10000)) build/tsan/tests/test-data '[stress]' && \
	CUOTA_STRESS=$$(($(STRESS) / 1000)) build/tsan/tests/test-programs '[stress]'

.PHONY: browser
browser: ## the timeline in headless Chromium, at many widths, with 100 and 100'000 events: a minute, and 400 MB of packages
	@$(SETUP) browser
	@$(call build,dev,--target make-timeline)
	@$(call ctest,dev,--label-regex '^browser$$' --output-on-failure)

.PHONY: docs
docs: ## the pages of docs/ and the reference of all headers as HTML, in build/docs/html
	@$(SETUP) docs
	@python3 tests/lint/docs.py --output=build/docs .
	@echo build/docs/html/index.html

.PHONY: model
model: ## every order of the threads' steps in larger configurations: minutes
	@$(SETUP)
	@$(call build,dev,--target test-model)
	@build/dev/tests/test-model '[long]'

# RULE, a word: only rules that have it.
RULE ?=

.PHONY: mutate
mutate: ## take the simulator's rules, the ledger's steps, the loader's guards, training's rules and the measures against a lack of memory out one by one; the tests that state them must fail
	@$(SETUP)
	@$(call build,dev,--target test-simulator --target test-model --target test-data --target test-training --target test-programs)
	@$(call build,tsan,--target cuota-simulator)
	@tests/data/mutation.py --commands=build/dev/compile_commands.json --tsan=build/tsan/compile_commands.json --jobs=$(JOBS) $(if $(RULE),'$(RULE)')
	@tests/training/mutation.py --commands=build/dev/compile_commands.json --jobs=$(JOBS) $(if $(RULE),'$(RULE)')
	@tests/programs/mutation.py --commands=build/dev/compile_commands.json --jobs=$(JOBS) $(if $(RULE),'$(RULE)')
	@tests/model/mutation.py --commands=build/dev/compile_commands.json $(if $(RULE),'$(RULE)')
	@tests/simulator/mutation.py --commands=build/dev/compile_commands.json --program=build/dev/tests/test-simulator --jobs=$(JOBS) $(if $(RULE),'$(RULE)')

# Inputs for each parser of tests/fuzz, of at most so many bytes: what a parser reads beyond that is more of the same. New
# inputs are kept in build/fuzz/corpus, those that broke something in build/fuzz. A failure names the file: put it into
# tests/fuzz/corpus, where every make integration tries it.
RUNS ?= 10000000
PARSERS ?= $(patsubst tests/fuzz/corpus/%,%,$(wildcard tests/fuzz/corpus/*))
longest = $(or $(patsubst $(1):%,%,$(filter $(1):%,cifar:6200 plan_step:160 text:128 loader_state:128)),1024)
fuzz_one = mkdir -p build/fuzz/corpus/$(1); echo "==== $(1)"; \
	build/fuzz/tests/fuzz/fuzz-$(1) -runs=$(RUNS) -max_len=$(longest) -malloc_limit_mb=64 -timeout=10 -print_final_stats=1 \
	    -artifact_prefix=build/fuzz/$(1)- build/fuzz/corpus/$(1) tests/fuzz/corpus/$(1) > build/fuzz/$(1).log 2>&1 \
	    && grep -a 'executed_units\|exec_per_sec' build/fuzz/$(1).log || { tail -n 40 build/fuzz/$(1).log; exit 1; };

.PHONY: fuzz
fuzz: ## every parser on RUNS inputs that libFuzzer makes up, under AddressSanitizer and UndefinedBehaviorSanitizer
	@mkdir -p build; echo 'extern "C" int LLVMFuzzerTestOneInput(char const*, unsigned long) { return 0; }' \
	    | clang++ -fsanitize=fuzzer -x c++ - -o build/has-libfuzzer 2> /dev/null \
	    || { echo 'SKIPPED: make fuzz (no clang++ with libFuzzer)'; exit; }; \
	$(SETUP) && { $(call build,dev,--target cuota-simulator); } && { $(call build,fuzz,$(PARSERS:%=--target fuzz-%)); } && { $(foreach one,$(PARSERS),$(call fuzz_one,$(one))) }

.PHONY: cuda
cuda: ## compile tests that have kernels, examples, benchmarks and each header alone by nvcc, other tests by g++, and read the machine code of kernels; run the tests if there is a GPU
	@$(SETUP) cuda
	@if ! command -v nvcc > /dev/null && [ ! -x $${CUDA_HOME:-/usr/local/cuda}/bin/nvcc ]; then \
	    echo 'SKIPPED: make cuda (no nvcc on this machine)'; exit; fi; \
	mkdir -p build; $(if $(SHORT),$(cuda_short),$(cuda_long))

nvcc_reads = tests/by_nvcc.py --jobs=$(JOBS) --commands=build/$(1)/compile_commands.json
no_gpu = grep -q 'no GPU on this machine' build/$(1).log
not_run = echo 'SKIPPED: running what make cuda compiled (no GPU on this machine)'
# make demo compiles by nvcc where there is a GPU; ccache has most of this library for make demo, or from it.
demo_by_nvcc = { cmake --preset demo -B build/demo-cuda -DCUOTA_RUNTIME=CUDA > build/demo-cuda.log 2>&1 || { cat build/demo-cuda.log; exit 1; }; } && \
	cmake --build build/demo-cuda --parallel $(JOBS) --target cuota-compiled
cuda_long = $(demo_by_nvcc) && { $(call configure,cuda); } && cmake --build --preset cuda --parallel $(JOBS) && tests/launched_kernels.py build/cuda && tests/gpu/machine_code.py && \
	if $(call no_gpu,cuda); then $(call nvcc_reads,cuda) --headers='in place,apart' && $(not_run); else $(call ctest,cuda); fi
cuda_short = cmake --preset gpu -B build/nvcc -DCMAKE_CUDA_ARCHITECTURES=90-real -DCMAKE_CXX_FLAGS='-Og -g1' > build/nvcc.log 2>&1 || { cat build/nvcc.log; exit 1; }; \
	if ! $(call no_gpu,nvcc); then $(cuda_long); exit; fi; \
	$(call left_out,files without kernels; the front end for the host$(comma) the host compiler and ptxas for all programs but first and test-runtime; each header alone; other architectures than sm_90); \
	$(demo_by_nvcc) && cmake --build build/nvcc --parallel $(JOBS) --target test-sources --target first --target test-runtime && \
	$(call nvcc_reads,nvcc) --sources --kernels --device-only --compiled='/(cuota-compiled|cuota-test-odr|first|test-runtime)\.dir/' && \
	tests/launched_kernels.py build/nvcc && tests/gpu/machine_code.py && $(not_run)

# The preset's architectures, or those of ARCH: make gpu ARCH=90-real. RMM, a folder as for make bench, adds rows beside RMM.
ARCH ?=
configure_gpu = $(if $(ARCH),-DCMAKE_CUDA_ARCHITECTURES='$(ARCH)') \
	-DCUOTA_BENCH_RMM=$(if $(RMM),ON -DCUOTA_RMM_ROOT=$(RMM),OFF)

.PHONY: gpu
gpu: ## tests, examples and benchmarks in one folder, for a machine that has a GPU and a driver and nothing else
	@$(SETUP)
	@if ! command -v nvcc > /dev/null && [ ! -x $${CUDA_HOME:-/usr/local/cuda}/bin/nvcc ]; then \
	    echo 'SKIPPED: make gpu (no nvcc on this machine)'; exit; fi; \
	$(call build,gpu) && tests/launched_kernels.py build/gpu && packaging/gpu/pack build/gpu build/cuota-gpu

# Each row of the table is a median of so many turns; ONLY, a regular expression, chooses rows. RMM, a folder that has PyPI's
# librmm and rapids_logger, and RMM_SOURCE, the folder cpp of RMM's repository at that version, add rows beside RMM.
# benchmarks: all of them, as Google Benchmark prints them.
TURNS ?= 5
ONLY ?=
RMM ?=
RMM_SOURCE ?=
beside_rmm = $(if $(RMM),--rmm)
configure_release = -DCUOTA_BENCH_RMM=$(if $(RMM),ON -DCUOTA_RMM_ROOT=$(RMM) -DCUOTA_RMM_SOURCE=$(RMM_SOURCE),OFF)

.PHONY: bench
bench: ## what cuota does, what its peers do in the same run, and what was to be reached: one table
	@$(SETUP) bench
	@mkdir -p build; $(call configure,release)
	@programs="$$(bench/table.py --programs $(beside_rmm) --only='$(ONLY)')"; \
	    [ -z "$$programs" ] || cmake --build --preset release --parallel $(JOBS) $$(printf -- ' --target %s' $$programs)
	@bench/table.py --build=build/release $(beside_rmm) --json=build/bench.json --turns=$(TURNS) --only='$(ONLY)'

.PHONY: benchmarks
benchmarks: ## every benchmark, one after the other
	@$(SETUP) bench
	@$(call build,release,--target bench)

# SHORT: the headers of the oldest toolkit alone, and that older ones are refused.
matrix_rows = $(or $(ONLY),$(if $(SHORT),^toolkit (11.8|12.0)$(comma) (refused|headers)$$))

.PHONY: matrix
matrix: ## one table: the headers of every CUDA Toolkit, compilers, C++20 and C++23, and aarch64 by qemu; ONLY chooses rows: an hour
	@$(SETUP) matrix $$(tests/matrix/matrix.py --needs --only='$(matrix_rows)')
	@mkdir -p build; tests/matrix/matrix.py --only='$(matrix_rows)' --jobs=$(JOBS) --json=build/matrix.json --text=build/matrix.txt; \
	    status=$$?; [ $$status != 2 ] || { echo 'SKIPPED: make matrix (each row lacks something)'; exit 0; }; exit $$status
	@tests/matrix/test_matrix --jobs=$(JOBS) $(if $(SHORT),--short)

.PHONY: instructions
instructions: ## a gate without noise: callgrind counts the hot paths, and what the compiler makes of programs; UPDATE=1 enters what it counts
	@$(SETUP) bench
	@$(call build,release,--target bench-instructions)
	@bench/instructions.py --build=build/release $(if $(UPDATE),--update); \
	    status=$$?; [ $$status = 77 ] && exit 0; exit $$status

# What is no step of CI by itself. In full: the targets that this one calls.
.PHONY: targets
targets: ## make instructions, one row of make bench, two of make matrix, one rule of make mutate, the modes for the layers that make sanitize leaves out in its short form, make loaded for one layer, moments of make stress and make fuzz, and make single and make docs: whether they work
	@$(SETUP) bench
	@$(MAKE) --jobs=2 --output-sync=recurse targets-of-releases targets-of-builds

# Callgrind counts in one process, and the rows of make matrix are compiled one after the other. They have folders of their own, so the targets
# that use build/dev run at the same time.
.PHONY: targets-of-releases targets-of-builds
targets-of-releases:
	@$(MAKE) instructions
	@$(MAKE) bench ONLY='budget: charge and refund' TURNS=1
	@$(MAKE) matrix SHORT=1
targets-of-builds:
	@$(MAKE) mutate RULE='sizes have a sum'
	@$(MAKE) modes SHORT=1 LABELS='^($(subst ;,|,$(less);$(less_by_asan)))$$$$'
	@$(MAKE) loaded TIMES=1 FORMS=late LABELS='^resource$$$$'
	@$(MAKE) stress STRESS=100000 SHORT=1
	@$(MAKE) fuzz RUNS=1000 PARSERS=text
	@$(MAKE) single
	@$(MAKE) docs

.PHONY: tidy
tidy: ## clang-tidy over the whole library and the examples
	@$(SETUP)
	@mkdir -p build; $(call configure,dev)
	clang-tidy --quiet --extra-arg=-Qunused-arguments -p build/dev examples/*.cpp examples/adopt/*.cpp tests/odr.cpp

.PHONY: format
format: ## format all sources by .clang-format
	clang-format -i $$(tests/lint/format.py --list)

.PHONY: check
check: ## all that CI runs
	@.ci/run

.PHONY: clean
clean: ## remove all that was built
	rm -rf build
