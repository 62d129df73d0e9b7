#include "daemon/admin/report_rows.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/base/array.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "proto/util/clock.h"

#define SLICE_ROWS  16 /* between two looks at the clock */
#define SLICE_LOOKS 64

struct row_block {
    struct row_block *next;
};

void *report_rows_take(struct rows *rows, size_t size)
{
    struct row_block *b = calloc(1, sizeof(*b) + size);

    if (!b)
        return NULL;
    b->next = rows->blocks;
    rows->blocks = b;
    return b + 1;
}

void *report_rows_add(struct rows *rows, size_t size)
{
    void *row = report_rows_take(rows, size);
    void **all = row ? array_grow(rows->row, &rows->size, rows->n + 1, sizeof(*all)) : NULL;

    if (!all)
        return NULL;
    rows->row = all;
    return rows->row[rows->n++] = row;
}

char *report_rows_copy_text(struct rows *rows, const char *text)
{
    char *p = report_rows_take(rows, strlen(text) + 1);

    return p ? strcpy(p, text) : (char *)"";
}

void report_rows_deinit(struct rows *rows)
{
    struct row_block *b, *next;

    for (b = rows->blocks; b; b = next) {
        next = b->next;
        free(b);
    }
    free(rows->row);
}

struct session *report_rows_session_from(struct server *server, uint64_t id)
{
    struct session *s = server->sessions;

    while (s && s->id < id)
        s = s->next;
    return s;
}

bool report_rows_slice_over(struct rows *rows)
{
    if (rows->n % SLICE_ROWS == SLICE_ROWS - 1 && clock_ns() >= rows->until)
        rows->more = true;
    return rows->more;
}

bool report_rows_look_over(struct rows *rows)
{
    if (++rows->looks % SLICE_LOOKS == 0 && clock_ns() >= rows->until)
        rows->more = true;
    return report_rows_slice_over(rows);
}

void *report_rows_next_object(struct server *server, struct rows *rows, const size_t *tables,
                              unsigned n_tables, struct session **sessionp)
{
    struct progress *p = rows->progress;
    struct session *s = *sessionp ? *sessionp : report_rows_session_from(server, p->session);
    void *object;

    if (report_rows_slice_over(rows))
        return NULL;
    for (; s && s->id <= p->last; s = s->next) {
        if (s->id != p->session)
            *p = (struct progress){.last = p->last, .session = s->id};
        if (!report_rows_tell(rows, s->uid)) {
            if (report_rows_look_over(rows))
                return NULL;
            continue;
        }
        for (; p->table < n_tables; p->table++, p->slot = 0) {
            object = slots_next((struct slots *)((char *)s + tables[p->table]), &p->slot);
            if (!object)
                continue;
            *sessionp = s;
            return object;
        }
    }
    return NULL;
}
