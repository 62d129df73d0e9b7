/* Rows of memory: copies, their rates, pages of the host, and what fresh memory shows. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/base/memfd.h"
#include "daemon/executor/check_part.h"
#include "daemon/executor/check_row.h"
#include "proto/util/clock.h"

#define MIB (UINT64_C(1) << 20)

/* --- copies --- */

/* To the device, within it, and back. False: the row is over. */
static bool copy_there_and_back(struct check *c, const struct vendor_memory memory[2], void *to,
                                void *from, uint64_t size)
{
    int32_t code;

    check_fill(to, size, size);
    memset(from, 0, size);
    code = check_copy(c, memory[0].address, (uintptr_t)to, size, VENDOR_TO_DEVICE);
    if (code == 0)
        code = check_copy(c, memory[1].address, memory[0].address, size, VENDOR_ON_DEVICE);
    if (code == 0)
        code = check_copy(c, (uintptr_t)from, memory[1].address, size, VENDOR_TO_HOST);
    if (check_refused(c, "copy", code))
        return false;
    if (check_matches(from, size, size))
        return true;
    check_say(c, CHECK_NO, "other bytes came back of %llu", (unsigned long long)size);
    return false;
}

void check_copies(struct check *c)
{
    static const uint64_t sizes[] = {1,     7,       63,       64,       4095,     4097,
                                     65536, MIB + 3, 16 * MIB, 64 * MIB, 256 * MIB};
    const uint64_t left = check_free_memory(c) / 4;
    const uint64_t most = left > 0 && left < 256 * MIB ? left : 256 * MIB;
    struct vendor_memory memory[2];
    void *to, *from;
    uint64_t done = 0;
    bool right;

    CHECK_DO(c, "memory", c->vendor->memory_new(c->library, c->device, most, &memory[0]));
    CHECK_DO(c, "memory", c->vendor->memory_new(c->library, c->device, most, &memory[1]));
    to = malloc(most);
    from = malloc(most);
    right = to && from;
    check_say(c, CHECK_NOT_KNOWN, "no memory on the host");
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes) && right && sizes[i] <= most; i++) {
        right = copy_there_and_back(c, memory, to, from, sizes[i]);
        done = sizes[i];
    }
    if (right)
        check_say(c, CHECK_YES, "to the device, within it and back: 1 byte to %llu MiB",
                  (unsigned long long)(done / MIB));
    check_value(c, "largest", "MiB", (double)done / (double)MIB);
    free(to);
    free(from);
}

/* --- rates --- */

#define RATE_BYTES (64 * MIB)
#define SLICE      (4 * MIB)
#define ROUNDS     4

/* GB/s of copies between the device and pages; 0: they failed. */
static double rate(struct check *c, uint64_t device, void *pages, enum vendor_way way)
{
    const bool out = way == VENDOR_TO_DEVICE;
    const uint64_t from = clock_ns();

    for (int i = 0; i < ROUNDS; i++)
        if (check_copy(c, out ? device : (uintptr_t)pages, out ? (uintptr_t)pages : device,
                       RATE_BYTES, way) != 0)
            return 0;
    return ROUNDS * (double)RATE_BYTES / 1e6 / check_ms(from);
}

/* Pages that the device does not know, by way of two slices that it does. */
static double staged_rate(struct check *c, uint64_t device, const char *pages, char *slices)
{
    const uint64_t from = clock_ns();
    struct vendor_lane *other;
    int32_t code = c->vendor->lane_new(c->library, c->device, &other);

    for (uint64_t at = 0; at < ROUNDS * RATE_BYTES && code == 0; at += SLICE) {
        struct vendor_lane **lane = at / SLICE % 2 == 0 ? &c->lane : &other;
        char *slice = slices + at / SLICE % 2 * SLICE;

        code = c->vendor->lane_sync(lane);
        if (code != 0)
            break;
        memcpy(slice, pages + at % RATE_BYTES, SLICE);
        code = c->vendor->copy(*lane, device + at % RATE_BYTES, (uintptr_t)slice, SLICE,
                               VENDOR_TO_DEVICE);
    }
    if (code == 0)
        code = check_sync(c);
    if (code == 0)
        code = c->vendor->lane_sync(&other);
    return code == 0 ? ROUNDS * (double)RATE_BYTES / 1e6 / check_ms(from) : 0;
}

/* The pages are registered for as long; false: they cannot be. */
static bool rate_attached(struct check *c, uint64_t device, void *pages, const char *name,
                          double *best)
{
    char text[28];

    if (!c->vendor->host_attach || c->vendor->host_attach(c->library, pages, RATE_BYTES) != 0)
        return false;
    rate(c, device, pages, VENDOR_TO_DEVICE);
    *best = rate(c, device, pages, VENDOR_TO_DEVICE);
    snprintf(text, sizeof(text), "%s to device", name);
    check_value(c, text, "GB/s", *best);
    snprintf(text, sizeof(text), "%s to host", name);
    check_value(c, text, "GB/s", rate(c, device, pages, VENDOR_TO_HOST));
    c->vendor->host_detach(c->library, pages);
    return true;
}

void check_rates(struct check *c)
{
    struct vendor_memory memory;
    double pinned = 0, file = 0, staged = 0, pageable;
    char *own = mmap(NULL, RATE_BYTES, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    void *pages;
    int fd;
    bool registers;

    CHECK_DO(c, "memory", c->vendor->memory_new(c->library, c->device, RATE_BYTES, &memory));
    if (own == MAP_FAILED || memfd_map_new("npud check", RATE_BYTES, &fd, &pages) != 0) {
        check_say(c, CHECK_NOT_KNOWN, "no memory on the host");
        return;
    }
    memset(pages, 1, RATE_BYTES);
    rate_attached(c, memory.address, own, "pinned", &pinned);
    registers = rate_attached(c, memory.address, pages, "memfd", &file);
    pageable = rate(c, memory.address, own, VENDOR_TO_DEVICE);
    check_value(c, "pageable to device", "GB/s", pageable);
    if (c->vendor->host_attach && c->vendor->host_attach(c->library, own, 2 * SLICE) == 0) {
        staged = staged_rate(c, memory.address, pages, own);
        c->vendor->host_detach(c->library, own);
        check_value(c, "staged to device", "GB/s", staged);
    }
    check_say(c, registers ? CHECK_YES : CHECK_NO,
              "to the device, 64 MiB: pinned %.1f, memfd registered %.1f, staged %.1f, "
              "pageable %.1f GB/s",
              pinned, file, staged, pageable);
}

/* --- pages of a client --- */

/* The client does it to its mapping of the same pages. */
static bool client_does(struct check *c, struct check_child *client, int fd, uint64_t size,
                        uint64_t what)
{
    struct check_message m = {.size = size, .value = what, .token.fd = fd};

    return check_send(client->socket, &m) && check_hear(c, client, &m, "the client's pages");
}

static void see_pages(struct check *c, struct check_child *client, int fd, void *pages)
{
    struct vendor_memory memory;
    bool matches;

    CHECK_DO(c, "memory", c->vendor->memory_new(c->library, c->device, MIB, &memory));
    CHECK_DO(c, "register", c->vendor->host_attach(c->library, pages, MIB));
    /* Written after they were registered, by another process. */
    if (!client_does(c, client, fd, MIB, CHECK_CLIENT_FILL))
        return;
    CHECK_DO(c, "copy", check_copy(c, memory.address, (uintptr_t)pages, MIB, VENDOR_TO_DEVICE));
    CHECK_DO(c, "copy", check_matches_device(c, memory.address, MIB, 4, &matches));
    if (!matches) {
        check_say(c, CHECK_NO, "the device sees other bytes than the client has written");
        return;
    }
    CHECK_DO(c, "copy", check_fill_device(c, memory.address, MIB, 5));
    CHECK_DO(c, "copy", check_copy(c, (uintptr_t)pages, memory.address, MIB, VENDOR_TO_HOST));
    if (!client_does(c, client, fd, MIB, CHECK_CLIENT_LOOK))
        return;
    c->vendor->host_detach(c->library, pages);
    check_say(c, CHECK_YES, "the device sees the client's writes, and the client the device's");
}

void check_client_pages(struct check *c)
{
    struct check_child client;
    struct check_message m;
    void *pages;
    int fd;

    CHECK_NEED(c, host_attach);
    if (memfd_map_new("npud check", MIB, &fd, &pages) != 0) {
        check_say(c, CHECK_NOT_KNOWN, "no memory on the host");
        return;
    }
    if (!check_child_start(c, "client", (uid_t)-1, &client))
        return;
    if (check_hear(c, &client, &m, "a client"))
        see_pages(c, &client, fd, pages);
    check_child_kill(&client);
}

/* --- what fresh memory shows --- */

#define FRESH_BYTES (64 * MIB)

/* How many pieces of 4 MiB have the bytes of the seed. */
static int32_t count_old(struct check *c, uint64_t seed, unsigned *n)
{
    struct vendor_memory memory;
    int32_t code = c->vendor->memory_new(c->library, c->device, FRESH_BYTES, &memory);

    *n = 0;
    for (uint64_t at = 0; at < FRESH_BYTES && code == 0; at += 4 * MIB) {
        bool matches;

        code = check_matches_device(c, memory.address + at, 4 * MIB, seed, &matches);
        *n += code == 0 && matches;
    }
    if (code == 0)
        c->vendor->memory_free(c->library, &memory);
    return code;
}

/* Has it filled memory, and is it gone? */
static bool other_fills(struct check *c)
{
    struct check_child filler;
    struct check_message m;
    bool filled;

    if (!check_child_start(c, "filler", (uid_t)-1, &filler))
        return false;
    filled = check_hear(c, &filler, &m, "another process");
    m = (struct check_message){.size = FRESH_BYTES * 2, .token.fd = -1};
    filled = filled && check_send(filler.socket, &m) &&
             check_hear(c, &filler, &m, "memory of another process");
    check_child_kill(&filler);
    return filled;
}

void check_old_bytes(struct check *c)
{
    struct vendor_memory memory;
    unsigned own, others;

    CHECK_DO(c, "memory", c->vendor->memory_new(c->library, c->device, FRESH_BYTES, &memory));
    CHECK_DO(c, "copy", check_fill_device(c, memory.address, FRESH_BYTES, 6));
    c->vendor->memory_free(c->library, &memory);
    CHECK_DO(c, "memory again", count_old(c, 6, &own));
    if (!other_fills(c))
        return;
    CHECK_DO(c, "memory again", count_old(c, 3, &others));
    check_say(c, own > 0 || others > 0 ? CHECK_YES : CHECK_NO,
              "of 64 MiB: %u MiB of its own before, %u MiB of another process", own * 4,
              others * 4);
    check_value(c, "own", "MiB", own * 4);
    check_value(c, "other process", "MiB", others * 4);
}
