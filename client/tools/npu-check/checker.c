/* Reads records, and tells the model. */
#include <stdlib.h>
#include <string.h>

#include "client/tools/npu-check/checker.h"
#include "client/tools/npu-check/model.h"
#include "client/tools/npu-check/read.h"

static void end_processes(struct model *m, struct reader *r)
{
    uint32_t process;

    while (reader_ended(r, &process))
        model_end_process(m, process);
}

bool checker_run(const char *directory, const struct checker_options *options, struct world *w,
                 struct findings *found, struct checker_numbers *numbers)
{
    struct reader *r = reader_open(directory, w);
    struct model_input in;
    struct model m;

    if (!r)
        return false;
    model_init(&m, w, found, options->host_seen);
    if (options->kinds)
        m.kinds = options->kinds;
    while (reader_next(r, &m.acts, &in)) {
        end_processes(&m, r);
        model_take(&m, &in);
    }
    end_processes(&m, r);
    model_end(&m);
    if (numbers)
        *numbers = (struct checker_numbers){reader_count(r), reader_malformed(r)};
    model_deinit(&m);
    reader_free(r);
    return true;
}

static void free_process(struct world_process *p)
{
    for (size_t i = 0; i < p->n_modules; i++)
        free(p->modules[i].path);
    free(p->modules);
    free(p->file);
}

static void free_place(struct world_place *p)
{
    free(p->frames);
    free(p->source_file);
    free(p->source_function);
}

void world_deinit(struct world *w)
{
    for (size_t i = 0; i < w->n_processes; i++)
        free_process(&w->processes[i]);
    for (size_t i = 0; i < w->n_places; i++)
        free_place(&w->places[i]);
    for (size_t i = 0; i < w->n_texts; i++)
        free(w->texts[i]);
    free(w->processes);
    free(w->streams);
    free(w->places);
    free(w->texts);
    memset(w, 0, sizeof(*w));
}
