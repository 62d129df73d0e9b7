/*
 * libFuzzer makes new inputs of what npud compares with what. Each compare is a call, and to note
 * it costs more than all else that npud does between two of them. The linker leads the calls here,
 * which pass them on when they are wanted. What is covered is counted in other ways, and always.
 */
#include "tests/fuzz/snapshot/kept.h"

#include <stdbool.h>
#include <stdint.h>

#include "tests/fuzz/snapshot/snapshot.h"

static bool told = true;

void compares_tell(bool tell)
{
    told = tell;
}

/* As a jump, so that libFuzzer finds the caller. */
/* clang-format off */
#define PASS_ON(name, type) \
    void __real___sanitizer_cov_##name(type a, type b); \
    void __wrap___sanitizer_cov_##name(type a, type b); \
    void __wrap___sanitizer_cov_##name(type a, type b) \
    { \
        if (__builtin_expect(told, 0)) \
            __real___sanitizer_cov_##name(a, b); \
    }
/* clang-format on */

PASS_ON(trace_cmp1, uint8_t)
PASS_ON(trace_cmp2, uint16_t)
PASS_ON(trace_cmp4, uint32_t)
PASS_ON(trace_cmp8, uint64_t)
PASS_ON(trace_const_cmp1, uint8_t)
PASS_ON(trace_const_cmp2, uint16_t)
PASS_ON(trace_const_cmp4, uint32_t)
PASS_ON(trace_const_cmp8, uint64_t)

void __real___sanitizer_cov_trace_pc_indir(uintptr_t callee);
void __wrap___sanitizer_cov_trace_pc_indir(uintptr_t callee);
void __wrap___sanitizer_cov_trace_pc_indir(uintptr_t callee)
{
    if (__builtin_expect(told, 0))
        __real___sanitizer_cov_trace_pc_indir(callee);
}

void __real___sanitizer_cov_trace_switch(uint64_t value, uint64_t *cases);
void __wrap___sanitizer_cov_trace_switch(uint64_t value, uint64_t *cases);
void __wrap___sanitizer_cov_trace_switch(uint64_t value, uint64_t *cases)
{
    if (__builtin_expect(told, 0))
        __real___sanitizer_cov_trace_switch(value, cases);
}
