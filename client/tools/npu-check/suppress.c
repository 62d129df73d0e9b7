#include "client/tools/npu-check/suppress.h"

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <string.h>

#include <utlist.h>

#include "client/tools/npu-check/need.h"
#include "client/tools/npu-check/words.h"

/* Frames of a suppression that is written: more make it too narrow. */
#define WRITE_FRAMES 8

enum pattern_kind { PATTERN_FUNCTION, PATTERN_OBJECT, PATTERN_SOURCE, PATTERN_ANY };

static const struct {
    const char *prefix;
    enum pattern_kind kind;
} pattern_words[] = {
    {"fun:", PATTERN_FUNCTION},
    {"obj:", PATTERN_OBJECT},
    {"src:", PATTERN_SOURCE},
};

struct pattern {
    enum pattern_kind kind;
    char *text;
    struct pattern *next;
};

struct suppression {
    char *kind;                /* a pattern; NULL: not read yet */
    bool named;                /* its name has been read */
    struct pattern *frames[2]; /* of the first and of the second act */
    struct pattern **ends[2];  /* where the next one of each goes */
    struct suppression *next;
};

/* --- reading --- */

struct reader {
    const char *path;
    unsigned line;
    struct suppression *block; /* NULL: between two */
    unsigned act;              /* whose frames follow */
    struct suppression **end;  /* where the next one goes */
};

static char *text_copy(const char *s)
{
    char *copy = strdup(s);

    if (!copy)
        err(NEED_EXIT, "memory");
    return copy;
}

static bool reader_refuse(const struct reader *in, const char *why)
{
    warnx("%s:%u: %s", in->path, in->line, why);
    return false;
}

static bool pattern_add(struct reader *in, enum pattern_kind kind, const char *text)
{
    struct pattern *p = need_zeroed(1, sizeof(*p));

    p->kind = kind;
    p->text = text_copy(text);
    *in->block->ends[in->act] = p;
    in->block->ends[in->act] = &p->next;
    return true;
}

static bool pattern_read(struct reader *in, const char *text)
{
    if (strcmp(text, "...") == 0)
        return pattern_add(in, PATTERN_ANY, "");
    for (size_t i = 0; i < sizeof(pattern_words) / sizeof(pattern_words[0]); i++) {
        size_t n = strlen(pattern_words[i].prefix);

        if (strncmp(text, pattern_words[i].prefix, n) == 0 && text[n])
            return pattern_add(in, pattern_words[i].kind, text + n);
    }
    return reader_refuse(in, "neither fun:, obj:, src:, ..., first, second nor }");
}

static bool kind_is_known(const char *pattern)
{
    for (int i = 0; i < FINDING_KINDS; i++)
        if (fnmatch(pattern, finding_names[i], 0) == 0)
            return true;
    return false;
}

static bool block_read_line(struct reader *in, const char *text)
{
    struct suppression *b = in->block;

    if (!b->named) {
        b->named = true;
        return true;
    }
    if (!b->kind) {
        b->kind = text_copy(text);
        return kind_is_known(text) || reader_refuse(in, "there is no such kind of finding");
    }
    if (strcmp(text, "first") == 0 || strcmp(text, "second") == 0) {
        in->act = text[0] == 's';
        return true;
    }
    return pattern_read(in, text);
}

static bool block_begin(struct reader *in)
{
    in->block = need_zeroed(1, sizeof(*in->block));
    in->act = 0;
    for (unsigned i = 0; i < 2; i++)
        in->block->ends[i] = &in->block->frames[i];
    *in->end = in->block;
    in->end = &in->block->next;
    return true;
}

static bool block_end(struct reader *in)
{
    if (!in->block->kind)
        return reader_refuse(in, "a suppression needs a name and a kind");
    in->block = NULL;
    return true;
}

static bool line_read(struct reader *in, char *line)
{
    char *text = line + strspn(line, " \t\r\n"), *end = text + strlen(text);

    while (end > text && isspace((unsigned char)end[-1]))
        *--end = '\0';
    if (text[0] == '\0' || text[0] == '#')
        return true;
    if (!in->block)
        return strcmp(text, "{") == 0 ? block_begin(in) : reader_refuse(in, "no { here");
    return strcmp(text, "}") == 0 ? block_end(in) : block_read_line(in, text);
}

static bool file_read(struct reader *in, FILE *f)
{
    char *line = NULL;
    size_t size = 0;
    bool ok = true;

    while (ok && getline(&line, &size, f) >= 0) {
        in->line++;
        ok = line_read(in, line);
    }
    free(line);
    if (ok && ferror(f)) {
        warn("%s", in->path);
        return false;
    }
    return ok && in->block ? reader_refuse(in, "no } at the end") : ok;
}

bool suppressions_read(struct suppression **all, const char *path)
{
    struct reader in = {.path = path, .end = all};
    FILE *f = fopen(path, "re");
    bool ok;

    if (!f) {
        warn("%s", path);
        return false;
    }
    while (*in.end)
        in.end = &(*in.end)->next;
    ok = file_read(&in, f);
    fclose(f);
    return ok;
}

static void patterns_free(struct pattern *all)
{
    struct pattern *p, *next;

    LL_FOREACH_SAFE (all, p, next) {
        free(p->text);
        free(p);
    }
}

void suppressions_free(struct suppression *all)
{
    struct suppression *b, *next;

    LL_FOREACH_SAFE (all, b, next) {
        patterns_free(b->frames[0]);
        patterns_free(b->frames[1]);
        free(b->kind);
        free(b);
    }
}

/* --- matching --- */

static bool source_match(const char *pattern, const struct frame *f)
{
    char place[4200];

    if (!f->line)
        return false;
    snprintf(place, sizeof(place), "%s:%" PRIu32, f->file, f->line);
    return fnmatch(pattern, place, 0) == 0 || fnmatch(pattern, path_name(place), 0) == 0;
}

static bool frame_match(const struct pattern *p, const struct frame *f)
{
    switch (p->kind) {
    case PATTERN_FUNCTION:
        return f->function && fnmatch(p->text, f->function, 0) == 0;
    case PATTERN_OBJECT:
        return f->object && fnmatch(p->text, f->object, 0) == 0;
    case PATTERN_SOURCE:
        return source_match(p->text, f);
    default:
        return false;
    }
}

/* The public function is frame 0; those of the program follow. False: there are no more. */
static bool frame_at(const struct place_frames *place, size_t i, struct frame *f)
{
    if (i > place->n)
        return false;
    *f = i == 0 ? (struct frame){.function = place->call} : place->frames[i - 1];
    return true;
}

/*
 * Whether the patterns match the frames from the beginning. A pattern behind "..." is tried at
 * every frame; only the last "..." has to be gone back to.
 */
static bool frames_match(const struct pattern *p, const struct place_frames *place)
{
    const struct pattern *again = NULL;
    size_t i = 0, again_at = 0;
    struct frame f;

    while (p) {
        if (p->kind == PATTERN_ANY) {
            again = p->next;
            again_at = i;
            p = again;
        } else if (frame_at(place, i, &f) && frame_match(p, &f)) {
            p = p->next;
            i++;
        } else if (again && again_at < place->n) {
            i = ++again_at;
            p = again;
        } else {
            return false;
        }
    }
    return true;
}

static bool act_match(const struct pattern *p, struct symbols *symbols, const struct act *a)
{
    if (!p)
        return true;
    return a->what != ACT_NONE && frames_match(p, symbols_find(symbols, a->place));
}

/* Which act of a race is the first one differs from run to run. */
static bool block_match(const struct suppression *b, struct symbols *symbols,
                        const struct finding *x)
{
    if (fnmatch(b->kind, finding_names[x->kind], 0) != 0)
        return false;
    if (act_match(b->frames[0], symbols, &x->first) && act_match(b->frames[1], symbols, &x->second))
        return true;
    return x->kind == FINDING_RACE && act_match(b->frames[0], symbols, &x->second) &&
           act_match(b->frames[1], symbols, &x->first);
}

bool suppressions_match(const struct suppression *all, struct symbols *symbols,
                        const struct finding *x)
{
    const struct suppression *b;

    LL_FOREACH (all, b) {
        if (block_match(b, symbols, x))
            return true;
    }
    return false;
}

/* --- writing --- */

/* What a line cannot have: a reader would take it for its end, or for nothing. */
static bool is_odd(const char *s)
{
    return iscntrl((unsigned char)*s) || (isspace((unsigned char)*s) && !s[1]);
}

/* What fnmatch(3) would take for a pattern is taken as it is. */
static void put_literal(const char *s, FILE *f)
{
    for (; *s; s++) {
        if (strchr("*?[\\", *s))
            fputc('\\', f);
        fputc(is_odd(s) ? '?' : *s, f);
    }
    fputc('\n', f);
}

static void put_pattern(const struct frame *frame, FILE *f)
{
    if (frame->function && frame->function[0]) {
        fputs("   fun:", f);
        put_literal(frame->function, f);
    } else if (frame->object && frame->object[0]) {
        fputs("   obj:", f);
        put_literal(frame->object, f);
    } else {
        fputs("   ...\n", f);
    }
}

static void put_frames(const struct report *r, const char *heading, const struct act *a, FILE *f)
{
    const struct place_frames *place = symbols_find(r->symbols, a->place);
    struct frame frame;

    if (a->what == ACT_NONE || (!place->call && place->n == 0))
        return;
    fprintf(f, "   %s\n", heading);
    for (size_t i = 0; i < WRITE_FRAMES && frame_at(place, i, &frame); i++) {
        put_pattern(&frame, f);
        if (frame.function && strcmp(frame.function, "main") == 0)
            break;
    }
}

/* Nothing that differs from run to run: such a file is kept. */
static void put_name(const struct report *r, const struct finding *x, FILE *f)
{
    const struct act *const acts[] = {&x->first, &x->second};

    fputs(finding_names[x->kind], f);
    for (size_t i = 0; i < sizeof(acts) / sizeof(acts[0]); i++) {
        const struct place_frames *place = symbols_find(r->symbols, acts[i]->place);

        if (acts[i]->what != ACT_NONE && place->call)
            fprintf(f, " %s", place->call);
    }
}

static void put_block(const struct report *r, const struct finding *x, FILE *f)
{
    fputs("{\n   ", f);
    put_name(r, x, f);
    fprintf(f, "\n   %s\n", finding_names[x->kind]);
    put_frames(r, "first", &x->first, f);
    put_frames(r, "second", &x->second, f);
    fputs("}\n", f);
}

bool suppressions_write(const struct report *r, const char *path)
{
    FILE *f = fopen(path, "we");

    if (!f)
        return false;
    for (size_t i = 0; i < r->findings->n; i++)
        if (!report_is_suppressed(r, i))
            put_block(r, &r->findings->list[i], f);
    if (ferror(f)) {
        fclose(f);
        errno = EIO;
        return false;
    }
    return fclose(f) == 0;
}
