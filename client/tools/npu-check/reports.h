/* What is shown of findings: as text, as JSON and as SARIF. */
#pragma once

#include <stdio.h>

#include "client/tools/npu-check/finding.h"
#include "client/tools/npu-check/symbol.h"
#include "client/tools/npu-check/world.h"

struct report {
    const struct world *world;
    const struct findings *findings;
    struct symbols *symbols;
    const bool *suppressed; /* of each finding; NULL: none is */
    bool verbose;           /* all frames, and whole paths */
};

/** Those that are not suppressed, or those that are. */
size_t report_count(const struct report *r, bool suppressed);
/** Of one kind, and not suppressed. */
size_t report_count_kind(const struct report *r, enum finding_kind kind);
bool report_is_suppressed(const struct report *r, size_t finding);

/** All findings, what could not be looked for, and the last line. */
void report_write_text(const struct report *r, FILE *f);
/** The first line of a finding without "npud check: KIND: ". */
void report_write_title(const struct report *r, const struct finding *x, FILE *f);
/** What is missing, in lines without indentation; nothing if the finding has no such line. */
void report_write_missing(const struct report *r, const struct finding *x, FILE *f);

/** What a writer above writes, in one line; the caller frees it. */
char *report_make_line(const struct report *r, const struct finding *x,
                       void (*write)(const struct report *, const struct finding *, FILE *));

/** What an act is called in a report: "written by", "read by". */
const char *report_label(const struct finding *x, bool first);
const char *report_memory_name(const struct finding *x);

/** False: the file cannot be written (errno). SARIF, if its name ends with ".sarif". */
bool report_write_file(const struct report *r, const char *path);

/** In report_json.c and report_sarif.c: a text that the caller frees. */
char *report_make_json(const struct report *r);
char *report_make_sarif(const struct report *r);
