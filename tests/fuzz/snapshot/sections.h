/* Included before each file of a fuzzer that has snapshots: where its variables are. */
#pragma clang section bss = "state_bss" data = "state_data"
