/* What the program says itself, for a trace and for npu-check: any thread, in a call. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/** Does a trace run, or is the process checked? */
bool trace_is_heard(void);

/** A call of the thread ends: api_call_watch(). */
void trace_tell_call(const char *function, uint64_t begin_ns);

/** A moment. */
void trace_say_mark(const char *text);

/** A range that began at begin_ns (npud's clock), and ends here. */
void trace_say_range(uint64_t begin_ns, const char *text);
