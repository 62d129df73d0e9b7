#include "client/tools/npu-check/reports.h"

#include <inttypes.h>
#include <string.h>

#include "client/tools/npu-check/need.h"
#include "client/tools/npu-check/words.h"
#include "proto/shm/check_file.h"
#include "proto/wire/error_name.h"

/* What an act is called: in the title of a race, and before its line. */
static const struct {
    const char *noun, *label, *past;
} act_words[] = {
    [ACT_NONE] = {"use", "used by", "used"},
    [ACT_READ] = {"read", "read by", "read"},
    [ACT_WRITE] = {"write", "written by", "written"},
    [ACT_FREE] = {"free", "freed by", "freed"},
    [ACT_UNMAP] = {"unmap", "unmapped by", "unmapped"},
    [ACT_CLOSE] = {"close", "closed by", "closed"},
    [ACT_ALLOC] = {"creation", "made by", "made"},
    [ACT_IMPORT] = {"import", "imported by", "imported"},
    [ACT_MAP] = {"map", "mapped by", "mapped"},
    [ACT_RECORD] = {"record", "recorded by", "recorded"},
    [ACT_RESET] = {"reset", "reset by", "reset"},
    [ACT_WAIT] = {"wait", "waits in", "awaited"},
    [ACT_SYNCHRONISE] = {"synchronise", "waits in", "synchronised"},
    [ACT_SUBMIT] = {"task", "given by", "given"},
};

#define ACT_WORDS (sizeof(act_words) / sizeof(act_words[0]))

static unsigned act_known(const struct act *a)
{
    return a->what < ACT_WORDS ? a->what : ACT_NONE;
}

const char *report_label(const struct finding *x, bool first)
{
    const struct act *a = first ? &x->first : &x->second;

    if (x->kind == FINDING_UNFINISHED || x->kind == FINDING_IGNORED)
        return "last task";
    if (x->kind == FINDING_USE_AFTER_FREE && !first && a->what == ACT_SUBMIT)
        return "used by"; /* refused: the call has done nothing */
    return act_words[act_known(a)].label;
}

const char *report_memory_name(const struct finding *x)
{
    static const char *const names[CHECK_MEMORY_KINDS] = {
        [CHECK_MEMORY_DEVICE] = "device memory",
        [CHECK_MEMORY_PINNED] = "pinned host memory",
        [CHECK_MEMORY_MANAGED] = "managed memory",
        [CHECK_MEMORY_PHYSICAL] = "physical device memory",
        [CHECK_MEMORY_BUFFER] = "a shared buffer",
    };

    if (x->memory.registered)
        return "registered host memory";
    return x->memory.kind < CHECK_MEMORY_KINDS ? names[x->memory.kind] : "memory";
}

/* --- one title for each kind --- */

static void title_race(const struct report *r, const struct finding *x, FILE *f)
{
    (void)r;
    fprintf(f, "%s and %s of %s without an order between them",
            act_words[act_known(&x->first)].noun, act_words[act_known(&x->second)].noun,
            report_memory_name(x));
}

static void title_uninitialised(const struct report *r, const struct finding *x, FILE *f)
{
    (void)r;
    fprintf(f, "read of %s that nothing has written", report_memory_name(x));
}

static void title_use_after_free(const struct report *r, const struct finding *x, FILE *f)
{
    (void)r;
    if (x->memory.beyond)
        fprintf(f, "use of %s beyond its end", report_memory_name(x));
    else if (x->memory.size)
        fprintf(f, "use of %s after it was %s", report_memory_name(x),
                x->first.what == ACT_NONE ? "freed" : act_words[act_known(&x->first)].past);
    else if (x->object != OBJECT_MEMORY)
        fprintf(f, "use of a destroyed %s", words_object(x->object));
    else
        fputs("use of an object that was destroyed", f);
}

static void title_leak(const struct report *r, const struct finding *x, FILE *f)
{
    uint64_t n = x->objects ? x->objects : 1;

    words_put_number(f, n);
    if (x->first.what == ACT_IMPORT)
        fputs(" imported", f);
    fprintf(f, " %s", n == 1 ? words_object(x->object) : words_objects(x->object));
    if (x->memory.size) {
        fputs(n == 1 ? " of " : ", in all ", f);
        words_put_number(f, x->memory.size);
        fputs(x->memory.size == 1 ? " byte" : " bytes", f);
        fprintf(f, " of %s,", report_memory_name(x));
    }
    fprintf(f, " not given back when ");
    words_put_process(f, r->world, x->first.process, true);
    fputs(" ended", f);
}

static void title_unfinished(const struct report *r, const struct finding *x, FILE *f)
{
    words_put_process(f, r->world, x->first.process, true);
    fputs(" ended with tasks that nothing has waited for", f);
}

static void title_empty_wait(const struct report *r, const struct finding *x, FILE *f)
{
    (void)r;
    fprintf(f, "%s for %s %s that %s", x->second.what == ACT_SYNCHRONISE ? "synchronise" : "wait",
            x->object == OBJECT_EVENT || x->object == OBJECT_IPC_EVENT ? "an" : "a",
            words_object(x->object),
            x->first.what == ACT_RESET ? "was reset" : "was never recorded");
}

static void title_ignored(const struct report *r, const struct finding *x, FILE *f)
{
    const char *name = error_name(x->code);

    (void)r;
    fprintf(f, "a task failed with %" PRId32, x->code);
    if (name)
        fprintf(f, " (%s)", name);
    fputs(", and no call has reported it", f);
}

static void (*const titles[FINDING_KINDS])(const struct report *, const struct finding *,
                                           FILE *) = {
    [FINDING_RACE] = title_race,
    [FINDING_UNINITIALISED] = title_uninitialised,
    [FINDING_USE_AFTER_FREE] = title_use_after_free,
    [FINDING_LEAK] = title_leak,
    [FINDING_UNFINISHED] = title_unfinished,
    [FINDING_EMPTY_WAIT] = title_empty_wait,
    [FINDING_IGNORED] = title_ignored,
};

void report_write_title(const struct report *r, const struct finding *x, FILE *f)
{
    titles[x->kind](r, x, f);
}

/* --- what is missing --- */

static void put_location(const struct report *r, const struct act *a, FILE *f)
{
    const struct place_frames *p = symbols_find(r->symbols, a->place);

    if (p->n == 0)
        return;
    fputs(" (", f);
    words_put_place(f, &p->frames[0], r->verbose);
    fputc(')', f);
}

static void put_event(const struct finding *x, FILE *f)
{
    fprintf(f, "%s %" PRIu64, words_object(x->missing.event), x->missing.event_number);
}

static const char *first_noun(const struct finding *x)
{
    return act_words[act_known(&x->first)].noun;
}

static void put_actor(const struct report *r, const struct act *a, FILE *f)
{
    if (a->stream != WORLD_NONE) {
        words_put_stream(f, r->world, a->stream, false);
        return;
    }
    fprintf(f, "thread %" PRIu32 " of ", a->thread);
    words_put_process(f, r->world, a->process, false);
}

static void missing_wait(const struct report *r, const struct finding *x, FILE *f)
{
    put_actor(r, &x->second, f);
    fprintf(f, " must wait for an event that is recorded after the %s.", first_noun(x));
}

static void missing_earlier(const struct report *r, const struct finding *x, FILE *f)
{
    missing_wait(r, x, f);
    fputs("\nIt waits for ", f);
    put_event(x, f);
    put_location(r, &x->missing.wait, f);
    fprintf(f, ", but that was recorded before the %s", first_noun(x));
    put_location(r, &x->missing.record, f);
    fputc('.', f);
}

static void missing_synchronise(const struct report *r, const struct finding *x, FILE *f)
{
    put_actor(r, &x->second, f);
    fputs(" must synchronise ", f);
    put_actor(r, &x->first, f);
    fprintf(f, " after the %s.", first_noun(x));
}

static void missing_host_edge(const struct report *r, const struct finding *x, FILE *f)
{
    put_actor(r, &x->second, f);
    fputs(" must learn from ", f);
    put_actor(r, &x->first, f);
    fprintf(f, " that the %s is over.\nnpud sees no order between these threads (--host=seen).",
            first_noun(x));
}

void report_write_missing(const struct report *r, const struct finding *x, FILE *f)
{
    static void (*const writers[])(const struct report *, const struct finding *, FILE *) = {
        [MISSING_WAIT] = missing_wait,
        [MISSING_WAIT_EARLIER] = missing_earlier,
        [MISSING_SYNCHRONISE] = missing_synchronise,
        [MISSING_HOST_EDGE] = missing_host_edge,
    };

    if (x->missing.kind < sizeof(writers) / sizeof(writers[0]) && writers[x->missing.kind])
        writers[x->missing.kind](r, x, f);
}

char *report_make_line(const struct report *r, const struct finding *x,
                       void (*write)(const struct report *, const struct finding *, FILE *))
{
    char *text = NULL, *end;
    size_t n;
    FILE *f = open_memstream(&text, &n);

    if (!f)
        err(NEED_EXIT, "memory");
    write(r, x, f);
    if (fclose(f) != 0)
        err(NEED_EXIT, "memory");
    for (end = strchr(text, '\n'); end; end = strchr(end, '\n'))
        *end = ' ';
    return text;
}
