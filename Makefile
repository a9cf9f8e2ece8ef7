# halfstep: `make help` lists the targets. Everything is built under $(BUILD); V=1 shows the commands.
#   make CC=clang    make BUILD=elsewhere    make CFLAGS='-O1 -g -fsanitize=address'    make REAL=double (see tensor/arrays.h)
# Settings are remembered: what was built with others is built again.
# -g1 has the lines of a backtrace; the variables, which -g adds, take a third of the time of a build.
BUILD  ?= build
REAL   ?= float
CFLAGS ?= -O2 -g1
WERROR ?= # -Werror in `make check`: a newer compiler's new warning should not stop a build
PYTHON ?= python3
Q      := $(if $(V),,@)

WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes $(WERROR)
FLAGS     = -std=c11 -D_GNU_SOURCE -I. $(WARNINGS) -ffp-contract=off -fno-math-errno -fPIC -fvisibility=hidden -pthread -MMD -MP
LIBS     := -lm -pthread

# ---- instruction sets: the kernels are compiled once for each, and chosen at run time (ops/cpu/cpu.c) ----
MACHINE := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine)))
ISAS    := portable $(if $(filter x86_64,$(MACHINE)),avx2 avx512 avx512bf16)

KERNEL_OPTIMIZE ?= -O3
ISA_unsafe   := -DHST_UNSAFE_ACCUMULATION # the naive kernels a second time (ops/cpu/naive.h)
ISA_portable :=
ISA_avx2     := -mavx2 -mfma -mf16c
ISA_avx512   := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma -mf16c
ISA_avx512bf16 := $(ISA_avx512) -mavx512bf16 -DHST_REST=avx512 # what is not compiled for it is avx512's

ifeq ($(REAL),double)
FLAGS += -DHST_REAL_DOUBLE
ISAS  :=
endif

NAIVE   := $(wildcard ops/cpu/naive*.c) ops/cpu/table.c
ONCE    := ops/cpu/cpu.c ops/cpu/upstream_sru.c
KERNELS := $(filter-out ops/cpu/naive%.c $(ONCE),$(wildcard ops/cpu/*.c))
OF_avx512bf16 := ops/cpu/gemm.c ops/cpu/table.c
SOURCES := $(wildcard tensor/*.c autograd/*.c ops/*.c amp/*.c optim/*.c models/*.c data/*.c train/*.c) $(ONCE)
OBJECTS := $(SOURCES:%.c=$(BUILD)/%.o) $(foreach isa,naive unsafe,$(NAIVE:%.c=$(BUILD)/%.$(isa).o)) $(foreach isa,$(ISAS),$(patsubst %.c,$(BUILD)/%.$(isa).o,$(or $(OF_$(isa)),$(KERNELS))))
COMMAND := $(patsubst %.c,$(BUILD)/%.o,$(wildcard train/cli/*.c))

VERSION := $(shell sed -n 's/.*define HST_VERSION "\(.*\)"/\1/p' tensor/tensor.h)
SONAME  := libhalfstep.so.$(firstword $(subst ., ,$(VERSION)))
SHARED  := libhalfstep.so.$(VERSION)

.PHONY: all help demo install uninstall deps test check instructions symbols bench experiment fixtures crosscheck clean
all: $(addprefix $(BUILD)/,halfstep libhalfstep.a libhalfstep.so include/halfstep.h) ## command and library (default)

help: ## this list
	@awk -F':.*## ' '/^[a-z]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' Makefile

# The folder is named where it is there: train/cli/png.c draws with what is in it.
SETTINGS := $(CC) $(CFLAGS) $(WERROR) $(KERNEL_OPTIMIZE) $(LDFLAGS) REAL=$(REAL) $(MACHINE) $(wildcard /usr/include/stb)
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
$(foreach isa,naive unsafe $(ISAS),$(eval $(call isa_rule,$(isa))))
# The micro-kernel's loop fills two lines of the cache: where it begins in the middle of one, a product takes 6 % longer.
$(BUILD)/ops/cpu/gemm.%.o: KERNEL_OPTIMIZE += -falign-loops=64

$(BUILD)/libhalfstep.a: $(OBJECTS)
	@rm -f $@
	$(Q)$(AR) rcs $@ $^

$(BUILD)/$(SHARED): $(OBJECTS)
	$(Q)$(CC) $(CFLAGS) -shared -Wl,-soname,$(SONAME) $(LDFLAGS) -o $@ $^ $(LIBS)

$(BUILD)/libhalfstep.so: $(BUILD)/$(SHARED)
	@ln -sf $(SHARED) $(BUILD)/$(SONAME)
	@ln -sf $(SONAME) $@

$(BUILD)/include/halfstep.h: train/header.awk $(wildcard */*.h)
	@mkdir -p $(@D)
	$(Q)awk -f $< > $@

$(BUILD)/halfstep: $(COMMAND) $(BUILD)/libhalfstep.a
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

demo: all ## trains a minute on this repository's own text, then writes like it
	$(BUILD)/halfstep train tensor autograd ops amp optim models data train README.md -o $(BUILD)/demo --force --time 60s
	$(BUILD)/halfstep generate $(BUILD)/demo --tokens 600

# ---- installation ----
PREFIX     ?= /usr/local
BINDIR     ?= $(PREFIX)/bin
LIBDIR     ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
DATADIR    ?= $(PREFIX)/share
MANDIR     ?= $(DATADIR)/man
EMULATOR   ?= # runs what was built for another machine: qemu-aarch64

BASH_FILE := $(DATADIR)/bash-completion/completions/halfstep
ZSH_FILE  := $(DATADIR)/zsh/site-functions/_halfstep
FISH_FILE := $(DATADIR)/fish/vendor_completions.d/halfstep.fish

# Manual pages and completions are written by the command, from its tables. halfstep.1 names the pages of the verbs.
.PHONY: surfaces
surfaces: $(BUILD)/halfstep
	@rm -rf $(BUILD)/man $(BUILD)/completions && mkdir -p $(BUILD)/man $(BUILD)/completions
	@$(EMULATOR) $< help --man > $(BUILD)/man/halfstep.1
	@for verb in $$(sed -n 's/^[.]BR halfstep.-\([a-z]*\) .*/\1/p' $(BUILD)/man/halfstep.1); do \
		$(EMULATOR) $< help --man $$verb > $(BUILD)/man/halfstep-$$verb.1 || exit 1; done
	@awk -v version=$(VERSION) -f train/manual.awk train/halfstep.3.in > $(BUILD)/man/halfstep.3
	@for shell in bash zsh fish; do $(EMULATOR) $< completion $$shell > $(BUILD)/completions/$$shell || exit 1; done

install: all surfaces ## command, library, header, manual, completions into PREFIX (/usr/local), below DESTDIR
	@test $(REAL) = float || { echo "the double build is for tests; it is not installed" >&2; exit 1; }
	install -d $(addprefix $(DESTDIR),$(BINDIR) $(INCLUDEDIR) $(LIBDIR)/pkgconfig $(MANDIR)/man1 $(MANDIR)/man3 \
		$(dir $(BASH_FILE) $(ZSH_FILE) $(FISH_FILE)))
	install -m 755 $(BUILD)/halfstep $(DESTDIR)$(BINDIR)
	install -m 644 $(BUILD)/include/halfstep.h $(DESTDIR)$(INCLUDEDIR)
	install -m 644 $(BUILD)/libhalfstep.a $(DESTDIR)$(LIBDIR)
	install -m 755 $(BUILD)/$(SHARED) $(DESTDIR)$(LIBDIR)
	ln -sf $(SHARED) $(DESTDIR)$(LIBDIR)/$(SONAME)
	ln -sf $(SONAME) $(DESTDIR)$(LIBDIR)/libhalfstep.so
	sed -e 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|; s|@LIBDIR@|$(LIBDIR:$(PREFIX)/%=$${prefix}/%)|' \
		-e 's|@INCLUDEDIR@|$(INCLUDEDIR:$(PREFIX)/%=$${prefix}/%)|' \
		train/halfstep.pc.in > $(BUILD)/halfstep.pc
	install -m 644 $(BUILD)/halfstep.pc $(DESTDIR)$(LIBDIR)/pkgconfig
	install -m 644 $(BUILD)/man/*.1 $(DESTDIR)$(MANDIR)/man1
	install -m 644 $(BUILD)/man/*.3 $(DESTDIR)$(MANDIR)/man3
	install -m 644 $(BUILD)/completions/bash $(DESTDIR)$(BASH_FILE)
	install -m 644 $(BUILD)/completions/zsh $(DESTDIR)$(ZSH_FILE)
	install -m 644 $(BUILD)/completions/fish $(DESTDIR)$(FISH_FILE)

uninstall: ## removes what install put there
	rm -f $(addprefix $(DESTDIR),$(BINDIR)/halfstep $(INCLUDEDIR)/halfstep.h $(LIBDIR)/libhalfstep.a \
		$(LIBDIR)/libhalfstep.so $(LIBDIR)/libhalfstep.so.[0-9]* $(LIBDIR)/pkgconfig/halfstep.pc \
		$(MANDIR)/man1/halfstep.1 $(MANDIR)/man1/halfstep-*.1 $(MANDIR)/man3/halfstep.3 \
		$(BASH_FILE) $(ZSH_FILE) $(FISH_FILE))

# ---- tests ----
deps: ## installs what the tests need and is missing (TOOLS='zsh fish': these too)
	@tests/deps.sh '$(CC)' $(TOOLS)

# One program for each folder below tests/ that has test_*.c; the double build has those that need it.
ifeq ($(REAL),double)
TESTS    := $(wildcard tests/gradients/test_*.c tests/*/test_*_fixture.c) tests/ops/test_accuracy.c
else
TESTS    := $(filter-out tests/gradients/%,$(wildcard tests/*/test_*.c))
EMBEDDED := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/embed/*.c))
COMMAND_FOR_TESTS := $(BUILD)/halfstep
endif
HELPERS  := $(filter-out $(wildcard tests/*/test_*.c),$(wildcard tests/*/*.c))
SUITES   := $(sort $(patsubst tests/%/,%,$(dir $(TESTS))))
PROGRAMS := $(SUITES:%=$(BUILD)/tests/%/run) $(EMBEDDED)

define suite_rule
$(BUILD)/tests/$(1)/run: $(patsubst %.c,$(BUILD)/%.o,$(filter tests/$(1)/%,$(TESTS) $(HELPERS))) $(BUILD)/libhalfstep.a
	$$(Q)$$(CC) $$(CFLAGS) $$(LDFLAGS) -o $$@ $$^ $$(LIBS) -lcriterion
endef
$(foreach suite,$(SUITES),$(eval $(call suite_rule,$(suite))))
$(BUILD)/tests/%.o: FLAGS += -DHST_BINARY='"$(BUILD)/halfstep"' -Wno-missing-field-initializers
$(BUILD)/tests/ops/pairs.o: FLAGS += $(if $(filter avx2,$(ISAS)),$(ISA_avx2))

# Plain programs that know the library as anybody does, by its installed header: those of embed, and the experiments,
# which are no part of the tests.
$(BUILD)/tests/%: tests/%.c $(BUILD)/include/halfstep.h $(BUILD)/libhalfstep.a
	@mkdir -p $(@D)
	$(Q)$(CC) -std=c11 -D_GNU_SOURCE $(WARNINGS) $(CFLAGS) -I$(BUILD)/include $< $(BUILD)/libhalfstep.a \
		$(LDFLAGS) $(LIBS) -o $@

# A locale with a decimal comma, for whoever asks for it.
$(BUILD)/locales:
	@mkdir -p $@
	@localedef -i de_DE -f UTF-8 $@/de_DE.UTF-8 2>/dev/null || \
		echo "  localedef makes no locale here: numbers are tested with a decimal point only"

.PHONY: run-tests
run-tests: $(COMMAND_FOR_TESTS) $(PROGRAMS) | $(BUILD)/locales
	@LOCPATH=$(abspath $(BUILD)/locales) tests/run.sh $(BUILD) $(PROGRAMS)

test: run-tests ## every suite, and the gradient checks in the double build
	@$(MAKE) --no-print-directory REAL=double BUILD=$(BUILD)/double run-tests
	@tests/listings.sh $(BUILD) '$(CC)'
	@tests/example.sh $(BUILD) '$(CC)'

check: ## what CI runs beyond the tests: sanitizers, valgrind, clang, installation, symbols (STEPS='...': some)
	@tests/check.sh $(BUILD) $(STEPS)

instructions: ## makes tests/check/instructions.txt anew, after a change of speed that is meant (gcc, clang, valgrind)
	tests/check/instructions.sh $(BUILD) anew

symbols: $(BUILD)/libhalfstep.so ## makes tests/abi/symbols.txt anew, after a change of the API that is meant
	tests/abi/symbols.sh $< > tests/abi/symbols.txt

bench: $(BUILD)/halfstep ## speed beside what the machine can do, some minutes (CORPUS=FILE: the text that is learnt)
	$< bench all $(if $(CORPUS),--text $(CORPUS))

experiment: $(BUILD)/tests/experiments/unsafe_training $(BUILD)/halfstep ## trains with sums rounded at each addition, and draws ops/unsafe_training.png (15 minutes)
	$< $(dir $<)
	cd $(dir $<) && $(abspath $(BUILD)/halfstep) plot "safe accumulation" "unsafe accumulation" "entropy of the source" \
		-o $(abspath ops/unsafe_training.png) --width 720 --height 420

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
