# To be sourced: options of npu-run for what NPUD_STRICT and NPUD_LATENCY_US ask of tests, as
# tests/common/harness.h has it.
# shellcheck shell=bash disable=SC2034
npu_run_options=()
[ -z "${NPUD_STRICT+set}" ] || npu_run_options+=(--strict)
[ -z "${NPUD_LATENCY_US:-}" ] || npu_run_options+=(--set "sim.latency_us=$NPUD_LATENCY_US")
