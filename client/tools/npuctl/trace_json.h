/*
 * Events of a trace, as Chrome's and Perfetto's viewers read them: one a line, on stdout.
 *
 * Printed as they come, and not made by cJSON: a trace has millions, and an object for each takes 5
 * times as long (14 us, where this takes 3).
 */
#pragma once

#include <stdint.h>

/** Times are printed as microseconds since this one. */
void trace_json_since(uint64_t ns);
/** A time of npud as such. */
double trace_json_us(uint64_t ns);

/** Also fit to stand in a page: no text ends its script. */
void trace_json_string(const char *text);

/** Begins an event; ends with what the caller adds, and a brace. */
void trace_json_begin(char phase, uint64_t pid, uint64_t tid);
void trace_json_name(const char *name, const char *category);
void trace_json_time(uint64_t ns);

/** Begins an event that lasts, or a moment: ends with arguments, and trace_json_end(). */
void trace_json_slice(uint64_t pid, uint64_t tid, const char *name, const char *category,
                      uint64_t begin, uint64_t end);
void trace_json_instant(uint64_t pid, uint64_t tid, const char *name, const char *category,
                        uint64_t at);
void trace_json_end(void);

/** An arrow begins ('s') or ends ('f') in the slice around that time. */
void trace_json_arrow(char phase, uint64_t pid, uint64_t tid, const char *category, uint64_t id,
                      uint64_t at);

/** A counter of a process has this value from now on. */
void trace_json_counter(uint64_t pid, const char *name, const char *unit, uint64_t at,
                        uint64_t value);
