# halfstep: `make help` lists the targets. Everything is built under $(BUILD); V=1 shows the commands.
#   make CC=clang    make BUILD=elsewhere    make CFLAGS='-O1 -g -fsanitize=address'    make REAL=double (see tensor/backend.h)
# Settings are remembered: what was built with others is built again.
BUILD  ?= build
REAL   ?= float
CFLAGS ?= -O2 -g
WERROR ?= # -Werror in `make check`: a newer compiler's new warning should not stop a build
PYTHON ?= python3
Q      := $(if $(V),,@)

WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes $(WERROR)
FLAGS     = -std=c11 -D_GNU_SOURCE -I. $(WARNINGS) -ffp-contract=off -fno-math-errno -fPIC -fvisibility=hidden -pthread -MMD -MP
LIBS     := -lm -pthread

# ---- instruction sets: the kernels are compiled once for each, and chosen at run time (ops/cpu/cpu.c) ----
MACHINE := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine)))
ISAS    := portable $(if $(filter x86_64,$(MACHINE)),avx2 avx512)

KERNEL_OPTIMIZE ?= -O3
ISA_portable :=
ISA_avx2     := -mavx2 -mfma -mf16c
ISA_avx512   := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma -mf16c

ifeq ($(REAL),double)
FLAGS += -DHST_REAL_DOUBLE
ISAS  :=
endif

NAIVE   := $(wildcard ops/cpu/naive*.c) ops/cpu/table.c
KERNELS := $(filter-out ops/cpu/naive%.c ops/cpu/cpu.c,$(wildcard ops/cpu/*.c))
SOURCES := $(wildcard tensor/*.c autograd/*.c ops/*.c amp/*.c optim/*.c models/*.c data/*.c train/*.c) ops/cpu/cpu.c
OBJECTS := $(SOURCES:%.c=$(BUILD)/%.o) $(NAIVE:%.c=$(BUILD)/%.naive.o) $(foreach isa,$(ISAS),$(KERNELS:%.c=$(BUILD)/%.$(isa).o))
COMMAND := $(patsubst %.c,$(BUILD)/%.o,$(wildcard train/cli/*.c))

.PHONY: all help demo deps test check bench fixtures crosscheck clean
all: $(BUILD)/halfstep $(BUILD)/libhalfstep.a $(BUILD)/libhalfstep.so ## the command and the library (default)

help: ## this list
	@awk -F':.*## ' '/^[a-z]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' Makefile

SETTINGS := $(CC) $(CFLAGS) $(WERROR) $(KERNEL_OPTIMIZE) $(LDFLAGS) REAL=$(REAL) $(MACHINE)
$(BUILD)/settings: FORCE
	@mkdir -p $(@D)
	@echo '$(SETTINGS)' | cmp -s - $@ || echo '$(SETTINGS)' > $@
.PHONY: FORCE

$(BUILD)/%.o: %.c $(BUILD)/settings
	@mkdir -p $(@D)
	$(if $(V),,@echo "  CC  $<")
	$(Q)$(CC) $(FLAGS) $(CFLAGS) -c $< -o $@

define isa_rule
$(BUILD)/%.$(1).o: %.c $(BUILD)/settings
	@mkdir -p $$(@D)
	$$(if $$(V),,@echo "  CC  $$<  ($(1))")
	$$(Q)$$(CC) $$(FLAGS) $$(CFLAGS) $$(KERNEL_OPTIMIZE) $$(ISA_$(1)) -DHST_ISA=$(1) -c $$< -o $$@
endef
$(foreach isa,naive $(ISAS),$(eval $(call isa_rule,$(isa))))

$(BUILD)/libhalfstep.a: $(OBJECTS)
	@rm -f $@
	$(Q)$(AR) rcs $@ $^

$(BUILD)/libhalfstep.so: $(OBJECTS)
	$(Q)$(CC) $(CFLAGS) -shared $(LDFLAGS) -o $@ $^ $(LIBS)

$(BUILD)/halfstep: $(COMMAND) $(BUILD)/libhalfstep.a
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

demo: all ## trains a minute on this repository's own text, then writes like it
	$(BUILD)/halfstep train tensor autograd ops amp optim models data train README.md -o $(BUILD)/demo --force --time 60s
	$(BUILD)/halfstep generate $(BUILD)/demo --tokens 600

deps: ## installs what the tests need and is missing
	@tests/deps.sh '$(CC)'

# ---- tests: one program for each folder below tests/ that has test_*.c; the double build has those that need it ----
SUITES  := $(sort $(patsubst tests/%/,%,$(dir $(wildcard tests/*/test_*.c))))
ifeq ($(REAL),double)
TESTS   := $(wildcard tests/gradients/test_*.c tests/*/test_*_fixture.c) tests/ops/test_accuracy.c
SUITES  := $(sort $(patsubst tests/%/,%,$(dir $(TESTS))))
else
TESTS   := $(filter-out tests/gradients/%,$(wildcard tests/*/test_*.c))
SUITES  := $(filter-out gradients,$(SUITES))
endif
HELPERS  := $(foreach file,$(wildcard tests/*/*.c),$(if $(filter test_% bench.c,$(notdir $(file))),,$(file)))
PROGRAMS := $(SUITES:%=$(BUILD)/tests/%/run)
COMMAND_FOR_TESTS := $(if $(filter double,$(REAL)),,$(BUILD)/halfstep)

define suite_rule
$(BUILD)/tests/$(1)/run: $(patsubst %.c,$(BUILD)/%.o,$(filter tests/$(1)/%,$(TESTS) $(HELPERS))) $(BUILD)/libhalfstep.a
	$$(Q)$$(CC) $$(CFLAGS) $$(LDFLAGS) -o $$@ $$^ $$(LIBS) -lcriterion
endef
$(foreach suite,$(SUITES),$(eval $(call suite_rule,$(suite))))
$(BUILD)/tests/%.o: FLAGS += -DHST_BINARY='"$(BUILD)/halfstep"' -Wno-missing-field-initializers

.PHONY: run-tests
run-tests: $(COMMAND_FOR_TESTS) $(PROGRAMS)
	@tests/run.sh $(PROGRAMS)

test: run-tests ## every suite, and the gradient checks in the double build
	@$(MAKE) --no-print-directory REAL=double BUILD=$(BUILD)/double run-tests
	@tests/listings.sh $(BUILD) '$(CC)'

check: ## what CI runs beyond the tests: sanitizers, clang, headers alone, rules of the tree
	@tests/check.sh $(BUILD)

bench: $(BUILD)/tests/bench/bench ## products and training steps, beside what the machine can do
	$(BUILD)/tests/bench/bench

$(BUILD)/tests/bench/bench: $(BUILD)/tests/bench/bench.o $(BUILD)/libhalfstep.a
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

fixtures: ## makes tests/fixtures anew with the Python packages (network, a minute)
	$(PYTHON) -B tests/fixtures/make_sru.py
	$(PYTHON) -B tests/fixtures/make_torch.py

crosscheck: $(BUILD)/libhalfstep.so $(BUILD)/halfstep ## files of ours in the `sru` package, and files of its in ours (network)
	$(PYTHON) -B tests/fixtures/check_upstream.py $(BUILD)/libhalfstep.so
	$(PYTHON) -B tests/fixtures/check_convert.py $(BUILD)/halfstep

clean: ## removes $(BUILD)
	@test ! -e $(BUILD) || test -e $(BUILD)/settings || { echo "$(BUILD) was not built by this Makefile" >&2; exit 1; }
	rm -rf $(BUILD)

-include $(OBJECTS:.o=.d) $(COMMAND:.o=.d) $(patsubst %.c,$(BUILD)/%.d,$(wildcard tests/*/*.c))
