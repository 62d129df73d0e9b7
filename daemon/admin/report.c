#include "daemon/admin/report.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/admin/report_topics.h"
#include "daemon/admin/wait_graph.h"
#include "daemon/base/memfd.h"
#include "daemon/core/server.h"
#include "proto/util/clock.h"
#include "proto/wire/npud.pb-c.h"

#define SLICE (100 * NSEC_PER_USEC) /* of making a report, before clients have their turn */

/* Where a list is in Npud__Report. */
struct list {
    size_t n, list;
};
#define LIST(name)                                                                                 \
    {                                                                                              \
        offsetof(Npud__Report, n_##name), offsetof(Npud__Report, name)                             \
    }

/* What fills the lists of a topic. The name of its first list is its own; few have a second. */
static const struct {
    report_fill_fn *fill;
    struct list lists[TOPIC_LISTS];
} topics[] = {
#define TOPIC(name, NAME) [NPUD__ADMIN_REQUEST__TOPIC__##NAME] = {report_##name, {LIST(name)}},
#define AND(name, NAME, second)                                                                    \
    [NPUD__ADMIN_REQUEST__TOPIC__##NAME] = {report_##name, {LIST(name), LIST(second)}},
    TOPICS(TOPIC, AND)
#undef TOPIC
#undef AND
};

bool report_has_topic(unsigned topic)
{
    return topic < sizeof(topics) / sizeof(topics[0]) && topics[topic].fill;
}

static int append_bytes(int fd, const uint8_t *data, size_t size)
{
    while (size > 0) {
        ssize_t n = write(fd, data, size);

        if (n < 0 && errno != EINTR)
            return -errno;
        data += n > 0 ? n : 0;
        size -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}

/* Append a Report with these rows: serialised messages in a row are one, with the lists of all. */
static int append_rows(struct admin_report *report, struct rows *rows)
{
    Npud__Report out = NPUD__REPORT__INIT;
    size_t size;
    uint8_t *packed;
    int r = -ENOMEM;

    for (unsigned i = 0; i < TOPIC_LISTS && topics[report->topic].lists[i].list != 0; i++) {
        *(size_t *)((char *)&out + topics[report->topic].lists[i].n) = rows[i].n;
        *(void ***)((char *)&out + topics[report->topic].lists[i].list) = rows[i].row;
    }
    size = npud__report__get_packed_size(&out);
    packed = malloc(size + 1);
    if (packed)
        r = append_bytes(report->fd, packed, npud__report__pack(&out, packed));
    free(packed);
    report->size += size;
    return r;
}

static int append_slice(struct server *server, struct admin_report *report,
                        struct rows rows[TOPIC_LISTS])
{
    bool more;
    int r;

    topics[report->topic].fill(server, rows);
    more = rows[0].more;
    r = append_rows(report, rows);
    for (unsigned i = 0; i < TOPIC_LISTS; i++)
        report_rows_deinit(&rows[i]);
    return r < 0 ? r : more;
}

int report_append_slice(struct server *server, struct admin_report *report)
{
    struct rows rows[TOPIC_LISTS] = {{.progress = &report->progress,
                                      .until = clock_ns() + SLICE,
                                      .own = report->own,
                                      .uid = report->uid}};

    return append_slice(server, report, rows);
}

int report_open(struct server *server, struct admin_report *report, unsigned topic)
{
    *report = (struct admin_report){
        .topic = topic,
        .fd = memfd_new_empty("npud-report"),
        .progress.last = server->last->session,
    };
    return report->fd < 0 ? report->fd : 0;
}

/* Without pages nothing can be mapped. */
int report_seal(const struct admin_report *report)
{
    if (report->size == 0 && ftruncate(report->fd, 1) < 0)
        return -errno;
    return fcntl(report->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0 ? -errno
                                                                                         : 0;
}

int report_open_own(struct server *server, struct admin_report *report, unsigned topic, uid_t uid)
{
    int r = report_open(server, report, topic);

    report->own = true;
    report->uid = uid;
    return r;
}

void report_close(struct admin_report *report)
{
    waits_free(report->progress.waits);
    report->progress.waits = NULL;
    free(report->progress.trace.after);
    report->progress.trace.after = NULL;
    if (report->fd >= 0)
        close(report->fd);
    report->fd = -1;
}
