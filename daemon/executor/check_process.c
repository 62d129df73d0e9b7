/* Rows of processes: starts, memory that is shared, and what is left of one that is killed. */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "daemon/executor/check_part.h"
#include "daemon/executor/check_row.h"
#include "proto/util/clock.h"

#define MIB    (UINT64_C(1) << 20)
#define NOBODY 65534

/* --- starts --- */

/* Until n processes have the device, in ms; negative: the row is over. */
static double start_processes(struct check *c, struct check_child *children, unsigned n)
{
    const uint64_t from = clock_ns();
    struct check_message m;

    for (unsigned i = 0; i < n; i++)
        if (!check_child_start(c, "start", (uid_t)-1, &children[i]))
            return -1;
    for (unsigned i = 0; i < n; i++)
        if (!check_hear(c, &children[i], &m, "start"))
            return -1;
    return check_ms(from);
}

void check_start(struct check *c)
{
    struct check_child children[10] = {0};
    double ms[4];

    for (int i = 0; i < 4; i++) {
        const unsigned n = i < 3 ? 1 : 10;

        ms[i] = start_processes(c, children, n);
        for (unsigned k = 0; k < n; k++)
            check_child_kill(&children[k]);
        if (ms[i] < 0)
            return;
    }
    check_say(c, CHECK_YES, "first %.0f, third %.0f, ten at once %.0f ms", ms[0], ms[2], ms[3]);
    check_value(c, "first", "ms", ms[0]);
    check_value(c, "third", "ms", ms[2]);
    check_value(c, "ten at once", "ms", ms[3]);
}

/* --- sharing --- */

/* The token goes to a process that may import by it. */
static bool hand_over(struct check *c, struct vendor_memory *memory, uint64_t use,
                      struct check_child *importer)
{
    struct check_message m = {.size = memory->size, .value = use};
    int32_t code = c->vendor->memory_export(c->library, memory, &m.token);
    bool sent;

    if (code == 0 && c->vendor->memory_allow)
        code = c->vendor->memory_allow(c->library, memory, &m.token, importer->pid);
    if (check_refused(c, "export", code))
        return false;
    sent = check_send(importer->socket, &m);
    if (m.token.fd >= 0)
        close(m.token.fd);
    return sent && check_hear(c, importer, &m, "import");
}

bool check_share_with(struct check *c, struct vendor_memory *memory, uint64_t use, uid_t uid,
                      struct check_child *importer)
{
    struct check_message m;

    if (!c->vendor->memory_export || !c->vendor->memory_import) {
        check_say(c, CHECK_NO, "the library has nothing for it (memory_export)");
        return false;
    }
    if (!check_child_start(c, "importer", uid, importer))
        return false;
    if (check_hear(c, importer, &m, "another process") && hand_over(c, memory, use, importer))
        return true;
    check_child_kill(importer);
    return false;
}

static const char *way_of(const struct vendor_token *token)
{
    return token->fd >= 0 ? "a descriptor" : *token->bytes ? "a key" : "a number (VMM)";
}

/* The importer has seen our bytes. why_not: it has no uid of its own. */
static void judge_share(struct check *c, struct vendor_memory *memory, const char *why_not)
{
    struct vendor_token token;
    bool matches;

    CHECK_DO(c, "copy", check_matches_device(c, memory->address, memory->size, 2, &matches));
    if (!matches) {
        check_say(c, CHECK_NO, "the importer's bytes are not seen");
        return;
    }
    CHECK_DO(c, "export again", c->vendor->memory_export(c->library, memory, &token));
    check_say(c, *why_not ? CHECK_DIFFERS : CHECK_YES, "both see what the other writes, by %s",
              way_of(&token));
    if (*why_not)
        check_add(c, "; of one uid only: %s", why_not);
    if (token.fd >= 0)
        close(token.fd);
}

void check_share(struct check *c)
{
    struct vendor_memory memory;
    struct check_child importer;
    char why_not[320] = "only root can try another uid";

    CHECK_DO(c, "memory", c->vendor->memory_new(c->library, c->device, 4 * MIB, &memory));
    CHECK_DO(c, "copy", check_fill_device(c, memory.address, memory.size, 1));
    if (geteuid() == 0) {
        if (check_share_with(c, &memory, CHECK_IMPORT_ONCE, NOBODY, &importer))
            why_not[0] = '\0';
        else
            snprintf(why_not, sizeof(why_not), "%.300s", c->result->text);
    }
    if (*why_not && !check_share_with(c, &memory, CHECK_IMPORT_ONCE, (uid_t)-1, &importer))
        return;
    judge_share(c, &memory, why_not);
    check_child_kill(&importer);
}

/* --- deaths --- */

/* A process that has made memory, and the memory here. */
static bool import_from(struct check *c, struct check_child *exporter, struct vendor_memory *memory)
{
    struct check_message m;
    int32_t code;

    if (!check_child_start(c, "exporter", (uid_t)-1, exporter))
        return false;
    if (!check_hear(c, exporter, &m, "another process"))
        return false;
    m = (struct check_message){.size = 8 * MIB, .pid = (int32_t)getpid(), .token.fd = -1};
    if (!check_send(exporter->socket, &m) || !check_hear(c, exporter, &m, "export"))
        return false;
    code = c->vendor->memory_import(c->library, c->device, m.size, &m.token, memory);
    if (m.token.fd >= 0)
        close(m.token.fd);
    return !check_refused(c, "import", code);
}

/* Bytes of the exporter, which has gone. */
static bool still_right(struct check *c, const struct vendor_memory *memory, const char *when)
{
    bool matches;

    if (check_refused(c, when, check_matches_device(c, memory->address, memory->size, 1, &matches)))
        return false;
    if (!matches)
        check_say(c, CHECK_NO, "other bytes %s", when);
    return matches;
}

void check_exporter_killed(struct check *c)
{
    struct vendor_memory memory, others;
    struct check_child exporter = {.pid = -1};
    bool right;

    CHECK_NEED(c, memory_import);
    right = import_from(c, &exporter, &memory) && still_right(c, &memory, "before its death");
    check_child_kill(&exporter);
    if (!right || !still_right(c, &memory, "after its death"))
        return;
    /* A driver that gives the pages away gives them to somebody. */
    CHECK_DO(c, "memory", c->vendor->memory_new(c->library, c->device, 256 * MIB, &others));
    CHECK_DO(c, "copy", check_fill_device(c, others.address, others.size, 9));
    clock_sleep_until(clock_ns() + 5 * NSEC_PER_SEC);
    if (still_right(c, &memory, "5 s after its death"))
        check_say(c, CHECK_YES, "the importer's bytes stay right, also 5 s later");
}

void check_importer_killed(struct check *c)
{
    struct vendor_memory memory;
    struct check_child importer;
    bool ended, matches;

    CHECK_DO(c, "memory", c->vendor->memory_new(c->library, c->device, 8 * MIB, &memory));
    CHECK_DO(c, "copy", check_fill_device(c, memory.address, memory.size, 1));
    if (!check_share_with(c, &memory, CHECK_IMPORT_COPY, (uid_t)-1, &importer))
        return;
    ended = check_child_kill(&importer);
    CHECK_DO(c, "copy", check_matches_device(c, memory.address, memory.size, 2, &matches));
    CHECK_DO(c, "copy", check_fill_device(c, memory.address, memory.size, 3));
    check_say(c, matches && ended ? CHECK_YES : CHECK_NO, "killed while it copied: %s",
              !ended    ? "it does not end"
              : matches ? "the exporter's bytes are right, and its lanes go on"
                        : "the exporter has other bytes");
}

void check_memory_back(struct check *c)
{
    struct check_child busy;
    struct check_message m;
    const uint64_t before = check_free_memory(c);
    uint64_t from, left = 0;
    bool ended;

    if (before == 0) {
        check_say(c, CHECK_NOT_KNOWN, "the library does not say how much memory is free");
        return;
    }
    if (!check_child_start(c, "busy", (uid_t)-1, &busy))
        return;
    if (!check_hear(c, &busy, &m, "work"))
        return;
    from = clock_ns();
    ended = check_child_kill(&busy);
    while (ended && left + 16 * MIB < before && check_ms(from) < 20000) {
        left = check_free_memory(c);
        poll(NULL, 0, 1);
    }
    check_say(c, left + 16 * MIB >= before ? CHECK_YES : CHECK_NO,
              left + 16 * MIB >= before ? "after %.0f ms" : "not after %.0f ms", check_ms(from));
    check_value(c, "after", "ms", check_ms(from));
}

/* --- lanes --- */

#define LANES_ASKED 2100

/* How many another process gets; it is killed then. Negative: the row is over. */
static int hoard(struct check *c, double *ms, char *text, size_t size)
{
    const uint64_t from = clock_ns();
    struct check_child hoarder;
    struct check_message m;
    bool heard;

    if (!check_child_start(c, "hoarder", (uid_t)-1, &hoarder))
        return -1;
    heard = check_hear(c, &hoarder, &m, "another process");
    m = (struct check_message){.value = LANES_ASKED, .token.fd = -1};
    heard = heard && check_send(hoarder.socket, &m) && check_hear(c, &hoarder, &m, "lanes");
    check_child_kill(&hoarder);
    *ms = check_ms(from);
    if (heard && text)
        snprintf(text, size, "%.*s", (int)sizeof(m.text) - 1, m.text);
    return heard ? (int)m.value : -1;
}

void check_lanes(struct check *c)
{
    char text[256] = "";
    double ms;
    int first, second;

    if (check_is_busy(c)) {
        check_say(c, CHECK_NOT_KNOWN, "the device is in use by others: it would take theirs away");
        return;
    }
    first = hoard(c, &ms, text, sizeof(text));
    if (first < 0)
        return;
    second = hoard(c, &ms, NULL, 0);
    if (second < 0)
        return;
    check_say(c, second < first ? CHECK_DIFFERS : CHECK_YES, "%s%d; after its death %d",
              first == LANES_ASKED ? "at least " : "", first, second);
    if (first < LANES_ASKED)
        check_add(c, "; then: %.200s", text);
    check_value(c, "lanes", "", first);
    check_value(c, "lanes after its death", "", second);
}
