# Libraries that programs name when they link them, and of which npud has no function: empty ones
# are in the toolkit tree. Also read by debian/rules.
STUB_NAMES := ascendc_runtime runtime register error_manager ge_common_base \
              ascendalog mmpa tiling_api platform unified_dlog graph_base
