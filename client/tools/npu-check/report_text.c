#include "client/tools/npu-check/reports.h"

#include <inttypes.h>
#include <string.h>

#include "client/tools/npu-check/need.h"
#include "client/tools/npu-check/words.h"

#define PREFIX "npud check: "

/* A further line of what a label begins. */
#define INDENT "              "

static void put_label(const char *label, FILE *f)
{
    fprintf(f, "  %-11s ", label);
}

static bool place_has_line(const struct place_frames *p)
{
    return p->n > 0 && p->frames[0].line != 0;
}

/* The frames behind the first one, or all if the first one has no line. */
static void put_frames(const struct report *r, const struct place_frames *p, FILE *f)
{
    if (p->n == 0 || (!r->verbose && place_has_line(p)))
        return;
    for (size_t i = 0; i < p->n; i++) {
        fputs(i == 0 ? INDENT "in " : INDENT "called by ", f);
        words_put_text(f, p->frames[i].function ? p->frames[i].function : "an unknown function");
        fputs(" (", f);
        words_put_place(f, &p->frames[i], r->verbose);
        fputs(")\n", f);
    }
}

/* "stream 2 of process 4711 (producer), 3rd task", or the thread. */
static void put_doer(const struct report *r, const struct act *a, FILE *f)
{
    if (a->stream != WORLD_NONE) {
        words_put_stream(f, r->world, a->stream, true);
        if (a->ordinal) {
            fputs(", ", f);
            words_put_ordinal(f, a->ordinal);
            fputs(" task", f);
        }
        return;
    }
    fprintf(f, "the calling thread %" PRIu32 " of ", a->thread);
    words_put_process(f, r->world, a->process, true);
}

static void put_range(const struct report *r, const struct act *a, FILE *f)
{
    if (a->range >= r->world->n_texts || !r->world->texts[a->range])
        return;
    fputs(", in range \"", f);
    words_put_text(f, r->world->texts[a->range]);
    fputc('"', f);
}

static void put_act(const struct report *r, const char *label, const struct act *a, FILE *f)
{
    const struct place_frames *p;

    if (a->what == ACT_NONE)
        return;
    p = symbols_find(r->symbols, a->place);
    put_label(label, f);
    fprintf(f, "%s, ", p->call ? p->call : "a call");
    put_doer(r, a, f);
    if (p->n) {
        fputs(", ", f);
        words_put_place(f, &p->frames[0], r->verbose);
    }
    put_range(r, a, f);
    fputc('\n', f);
    put_frames(r, p, f);
}

/* --- memory --- */

static void put_origin(const struct report *r, const char *what, const struct act *a, FILE *f)
{
    const struct place_frames *p = symbols_find(r->symbols, a->place);

    fputs(what, f);
    if (a->process < r->world->n_processes)
        fprintf(f, "%d", r->world->processes[a->process].pid);
    else
        fputc('?', f);
    if (p->n) {
        fputs(" at ", f);
        words_put_place(f, &p->frames[0], r->verbose);
    }
}

static void put_origins(const struct report *r, const struct finding *x, FILE *f)
{
    bool made = x->memory.made.what != ACT_NONE, imported = x->memory.imported.what != ACT_NONE;

    if (!made && !imported)
        return;
    fputs(" (", f);
    if (made)
        put_origin(r, x->memory.registered ? "registered by process " : "allocated by process ",
                   &x->memory.made, f);
    if (imported)
        put_origin(r, made ? ", imported by " : "imported by process ", &x->memory.imported, f);
    fputc(')', f);
}

static void put_memory(const struct report *r, const struct finding *x, FILE *f)
{
    if (x->memory.size == 0 || x->kind == FINDING_LEAK)
        return;
    put_label("memory", f);
    words_put_number(f, x->memory.size);
    fputs(x->memory.size == 1 ? " byte" : " bytes", f);
    if (x->memory.address)
        fprintf(f, " at 0x%" PRIx64, x->memory.address);
    if (x->memory.whole && (x->memory.offset || x->memory.size != x->memory.whole)) {
        fputs(", from byte ", f);
        words_put_number(f, x->memory.offset);
        fputs(" of ", f);
        words_put_number(f, x->memory.whole);
    }
    put_origins(r, x, f);
    fputc('\n', f);
}

/* --- findings --- */

static void put_missing(const struct report *r, const struct finding *x, FILE *f)
{
    char *text = NULL, *rest, *line;
    size_t n = 0;
    FILE *memory;

    if (x->missing.kind == MISSING_NONE)
        return;
    memory = open_memstream(&text, &n);
    if (!memory)
        err(NEED_EXIT, "memory");
    report_write_missing(r, x, memory);
    if (fclose(memory) != 0)
        err(NEED_EXIT, "memory");
    rest = text;
    for (line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n")) {
        if (line == text)
            put_label("missing", f);
        else
            fputs(INDENT, f);
        fprintf(f, "%s\n", line);
    }
    free(text);
}

static void put_finding(const struct report *r, const struct finding *x, FILE *f)
{
    fprintf(f, PREFIX "%s: ", finding_names[x->kind]);
    report_write_title(r, x, f);
    if (x->count > 1) {
        fputs(" (seen ", f);
        words_put_number(f, x->count);
        fputs(" times)", f);
    }
    fputc('\n', f);
    put_act(r, report_label(x, true), &x->first, f);
    put_act(r, report_label(x, false), &x->second, f);
    put_memory(r, x, f);
    put_missing(r, x, f);
}

/* --- the end --- */

bool report_is_suppressed(const struct report *r, size_t finding)
{
    return r->suppressed && r->suppressed[finding];
}

size_t report_count(const struct report *r, bool suppressed)
{
    size_t n = 0;

    for (size_t i = 0; i < r->findings->n; i++)
        n += report_is_suppressed(r, i) == suppressed;
    return n;
}

size_t report_count_kind(const struct report *r, enum finding_kind kind)
{
    size_t n = 0;

    for (size_t i = 0; i < r->findings->n; i++)
        n += !report_is_suppressed(r, i) && r->findings->list[i].kind == kind;
    return n;
}

static void put_process_note(const struct report *r, uint32_t process, FILE *f)
{
    const struct world_process *p = &r->world->processes[process];

    if (p->lost) {
        fputs(PREFIX, f);
        words_put_process(f, r->world, process, true);
        fputs(" ended without exit and aclFinalize: its leaks and unfinished tasks were not "
              "looked for",
              f);
        if (p->left > 0)
            fprintf(f, "; npud has taken back %" PRIu64 " object%s of it", p->left,
                    p->left == 1 ? "" : "s");
        fputc('\n', f);
    }
    if (p->failed) {
        fputs(PREFIX, f);
        words_put_process(f, r->world, process, true);
        fputs(" could not write all that it did: findings may be missing; is the disk full?\n", f);
    }
}

static void put_summary(const struct report *r, FILE *f)
{
    size_t n = report_count(r, false), suppressed = report_count(r, true);
    size_t processes = r->world->n_processes;
    const char *separator = ": ";

    if (n == 0)
        fputs(PREFIX "no findings", f);
    else
        fprintf(f, PREFIX "%zu %s", n, n == 1 ? "finding" : "findings");
    if (processes == 0) {
        fputs(": no process has used libaclclient\n", f);
        return;
    }
    fprintf(f, " in %zu %s", processes, processes == 1 ? "process" : "processes");
    for (enum finding_kind kind = 0; kind < FINDING_KINDS; kind++) {
        size_t of_kind = report_count_kind(r, kind);

        if (of_kind == 0)
            continue;
        fprintf(f, "%s%s %zu", separator, finding_names[kind], of_kind);
        separator = ", ";
    }
    if (suppressed)
        fprintf(f, " (%zu suppressed)", suppressed);
    fputc('\n', f);
}

void report_write_text(const struct report *r, FILE *f)
{
    for (size_t i = 0; i < r->findings->n; i++)
        if (!report_is_suppressed(r, i))
            put_finding(r, &r->findings->list[i], f);
    for (size_t i = 0; i < r->world->n_processes; i++)
        put_process_note(r, (uint32_t)i, f);
    put_summary(r, f);
}
