# What concerns real GPUs (docs/hardware/cuda.md): a fake of CUDA's driver for tests without one,
# raw programs, and the package that runs where there is one.

GPU_DIR := $(BUILD)/tests/gpu
FAKE_CUDA := $(GPU_DIR)/libfake_cuda.so
FAKE_NVML := $(GPU_DIR)/libnvidia-ml.so.1
FAKE_LDFLAGS = -shared -Wl,-z,defs -Wl,-soname,$(@F) -lpthread

$(FAKE_CUDA): $(patsubst %,$(GPU_DIR)/fake_%.pic.o,cuda memory stream kernel)
	$(call link,$(FAKE_LDFLAGS))
$(FAKE_NVML): $(GPU_DIR)/fake_nvml.pic.o
	$(call link,$(FAKE_LDFLAGS))

CUDA_OBJ := $(patsubst %,$(BUILD)/daemon/executor/%.o,cuda cuda_api cuda_context cuda_image \
    cuda_memory cuda_probe nvml vendor_text)
$(BUILD)/tests/unit/test_cuda_table: $(CUDA_OBJ) | $(FAKE_CUDA) $(FAKE_NVML)
$(BUILD)/tests/unit/test_cuda_table: UNIT_LDFLAGS += $(FROM_ORIGIN)

# Programs that measure with CUDA alone, for comparison. They find nothing but libc and libcuda.
RAW_BIN := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/gpu/raw/raw_*.c))
$(RAW_BIN): $(GPU_DIR)/raw/%: $(GPU_DIR)/raw/%.o $(GPU_DIR)/raw/raw.o \
    $(BUILD)/daemon/executor/cuda_api.o $(BUILD)/proto/util/fd_message.o
	$(call link,-lpthread)

# One file that runs where a driver and a shell are, and nothing else: nothing is installed there,
# and nothing fetched. GPU_FAKE=1 runs it over the fake, to try the package itself.
GPU_PACKAGE := $(BUILD)/gpu/npud-gpu.tar.gz
GPU_SUITES := $(shell grep -v '^\#' tests/gpu/suites.list)
GPU_TESTS := $(BUILD)/tests/unit/test_cuda_table $(GPU_SUITES:%=$(BUILD)/%)
.PHONY: gpu-package check-gpu bench-gpu
test-programs: $(RAW_BIN)
test-suites: $(FAKE_CUDA) $(FAKE_NVML)
gpu-package: deps
	$(Q)$(MAKE) --no-print-directory programs $(RAW_BIN) $(GPU_TESTS) $(FAKE_CUDA) $(FAKE_NVML)
	$(Q)sh mk/gpu.sh $(BUILD) $(GPU_PACKAGE) $(RAW_BIN) $(GPU_TESTS) $(FAKE_CUDA) $(FAKE_NVML)
check-gpu bench-gpu: gpu-package
	$(Q)sh tests/gpu/run.sh --$(@:%-gpu=%) $(if $(GPU_FAKE),--fake) $(GPU_PACKAGE)
