#include "client/tools/npu-check/words.h"

#include <err.h>
#include <inttypes.h>
#include <stdlib.h>

#include "client/tools/npu-check/need.h"
#include "client/tools/npuctl/text.h"

static const char *const object_words[OBJECT_WHATS][2] = {
    [OBJECT_MEMORY] = {"allocation", "allocations"},
    [OBJECT_STREAM] = {"stream", "streams"},
    [OBJECT_EVENT] = {"event", "events"},
    [OBJECT_IPC_EVENT] = {"IPC event", "IPC events"},
    [OBJECT_NOTIFY] = {"notify", "notifies"},
    [OBJECT_COUNT_NOTIFY] = {"count notify", "count notifies"},
    [OBJECT_CONTEXT] = {"context", "contexts"},
    [OBJECT_MEMORY_POOL] = {"memory pool", "memory pools"},
    [OBJECT_ADDRESSES] = {"reserved address range", "reserved address ranges"},
    [OBJECT_QUEUE] = {"queue", "queues"},
    [OBJECT_BUFFER] = {"buffer", "buffers"},
};

const char *words_object(enum object_what what)
{
    return what < OBJECT_WHATS ? object_words[what][0] : "object";
}

const char *words_objects(enum object_what what)
{
    return what < OBJECT_WHATS ? object_words[what][1] : "objects";
}

void words_put_number(FILE *f, uint64_t n)
{
    char digits[24];
    int length = snprintf(digits, sizeof(digits), "%" PRIu64, n);

    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            fputc(',', f);
        fputc(digits[i], f);
    }
}

void words_put_ordinal(FILE *f, uint64_t n)
{
    static const char *const endings[] = {"th", "st", "nd", "rd"};
    uint64_t last = n % 10, teens = n / 10 % 10;

    words_put_number(f, n);
    fputs(endings[last < 4 && teens != 1 ? last : 0], f);
}

void words_put_text(FILE *f, const char *s)
{
    int width;
    char *shown = text_escape(s, false, &width);

    if (!shown)
        err(NEED_EXIT, "memory");
    fputs(shown, f);
    free(shown);
}

void words_put_process(FILE *f, const struct world *w, uint32_t process, bool named)
{
    if (process >= w->n_processes) {
        fputs("an unknown process", f);
        return;
    }
    fprintf(f, "process %d", w->processes[process].pid);
    if (!named)
        return;
    fputs(" (", f);
    words_put_text(f, w->processes[process].program);
    fputc(')', f);
}

void words_put_stream(FILE *f, const struct world *w, uint32_t stream, bool named)
{
    const struct world_stream *s;

    if (stream >= w->n_streams) {
        fputs("an unknown stream", f);
        return;
    }
    s = &w->streams[stream];
    fprintf(f, s->is_default ? "default stream %d of " : "stream %d of ", s->id);
    words_put_process(f, w, s->process, named);
}

void words_put_place(FILE *f, const struct frame *frame, bool verbose)
{
    if (frame->line) {
        words_put_text(f, verbose ? frame->file : path_name(frame->file));
        fprintf(f, ":%" PRIu32, frame->line);
    } else if (frame->object) {
        words_put_text(f, verbose ? frame->object : path_name(frame->object));
        fprintf(f, "+0x%" PRIx64, frame->offset);
    } else {
        fprintf(f, "0x%" PRIx64, frame->offset);
    }
}
