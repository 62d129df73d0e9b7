#include "daemon/executor/acl_probe.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/base/memfd.h"
#include "daemon/executor/acl_api.h"
#include "daemon/executor/vendor.h"
#include "proto/util/reduce.h"

#define BYTES 4096u
#define WORD  UINT64_C(0x6e7075642d776f72)

/* Where it tries. */
struct probe {
    struct vendor_library *library;
    uint32_t device;
    struct vendor_lane *lane;
    struct vendor_memory memory;
};

/* What the lane has been given went well. After an error there may be no lane any more. */
static bool is_done(struct probe *p)
{
    return p->lane && vendor_acl.lane_sync(&p->lane) == 0;
}

static bool reads_back(struct probe *p, const void *expected, uint64_t size)
{
    unsigned char bytes[64] = {0};

    return p->lane &&
           vendor_acl.copy(p->lane, (uintptr_t)bytes, p->memory.address, size, VENDOR_TO_HOST) ==
               0 &&
           is_done(p) && memcmp(bytes, expected, size) == 0;
}

static bool writes(struct probe *p, uint64_t offset, const void *bytes, uint64_t size)
{
    return p->lane &&
           vendor_acl.copy(p->lane, p->memory.address + offset, (uintptr_t)bytes, size,
                           VENDOR_TO_DEVICE) == 0 &&
           is_done(p);
}

/*
 * The exporter's half: a process cannot import what it has exported itself. The other half is a row
 * of npud --check-backend.
 */
static bool can_share(struct probe *p)
{
    struct vendor_token token;

    return vendor_acl.memory_export(p->library, &p->memory, &token) == 0 &&
           vendor_acl.memory_allow(p->library, &p->memory, &token, (int32_t)getpid()) == 0;
}

static bool can_register(struct probe *p)
{
    void *pages;
    int fd;
    bool can;

    if (memfd_map_new("npud probe", BYTES, &fd, &pages) != 0)
        return false;
    can = vendor_acl.host_attach(p->library, pages, BYTES) == 0;
    if (can) {
        memcpy(pages, &(uint64_t){WORD}, sizeof(uint64_t));
        can = writes(p, 0, pages, sizeof(uint64_t)) &&
              reads_back(p, &(uint64_t){WORD}, sizeof(uint64_t));
        vendor_acl.host_detach(p->library, pages);
    }
    munmap(pages, BYTES);
    close(fd);
    return can;
}

static bool can_set(struct probe *p)
{
    unsigned char expected[64];

    memset(expected, 0xa5, sizeof(expected));
    return p->lane && vendor_acl.set(p->lane, p->memory.address, 0xa5, sizeof(expected)) == 0 &&
           is_done(p) && reads_back(p, expected, sizeof(expected));
}

static bool can_reduce(struct probe *p)
{
    const float a[2] = {1, 2}, b[2] = {3, 5}, sum[2] = {4, 7};

    return writes(p, 0, a, sizeof(a)) && writes(p, BYTES / 2, b, sizeof(b)) &&
           vendor_acl.reduce(p->lane, p->memory.address, p->memory.address + BYTES / 2, sizeof(a),
                             REDUCE_SUM, ACL_FLOAT) == 0 &&
           is_done(p) && reads_back(p, sum, sizeof(sum));
}

static bool can_write_words(struct probe *p)
{
    const uint64_t word = WORD;

    return writes(p, 0, &(uint64_t){0}, sizeof(word)) &&
           vendor_acl.word_write(p->lane, p->memory.address, word) == 0 && is_done(p) &&
           reads_back(p, &word, sizeof(word));
}

/* Of an idle lane: that ends nothing. */
static bool can_abort(struct probe *p)
{
    const bool can = p->lane && vendor_acl.lane_abort(p->lane) == 0;

    if (can)
        vendor_acl.lane_sync(&p->lane);
    return can;
}

/* No kernel is at hand. A library that knows binaries finds that this is none. */
static bool can_load(struct probe *p)
{
    static const char nothing[64] = "no kernel of any device";
    void *binary;
    int32_t code;

    if (!ACL_HAS(p->library, aclrtLaunchKernelWithHostArgs) ||
        !ACL_HAS(p->library, aclrtBinaryGetFunction))
        return false;
    code = vendor_acl.binary_load(p->library, p->device, nothing, sizeof(nothing), 0, &binary);
    if (code == 0)
        vendor_acl.binary_free(p->library, binary);
    return code != ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
}

/* The memory of some other device. */
static bool can_reach_peer(struct probe *p)
{
    struct vendor_library *l = p->library;
    uint32_t n = 0;
    bool can = false;

    if (vendor_acl.device_count(l, &n) != 0)
        return false;
    for (uint32_t other = 0; other < n && !can; other++) {
        int32_t possible = 0;

        can = other != p->device &&
              ACL_CALL(l, aclrtDeviceCanAccessPeer, &possible, (int32_t)p->device,
                       (int32_t)other) == 0 &&
              possible == 1 && ACL_CALL(l, aclrtDeviceEnablePeerAccess, (int32_t)other, 0) == 0;
        if (can && !l->device[other].begun)
            ACL_CALL(l, aclrtDeviceDisablePeerAccess, (int32_t)other);
    }
    return can;
}

static bool can_say_health(struct probe *p)
{
    struct executor_health health;

    return vendor_acl.health(p->library, p->device, &health) == 0;
}

uint64_t acl_probe(struct vendor_library *library, uint32_t device)
{
    static const struct {
        uint64_t bit;
        bool (*can)(struct probe *p);
    } tries[] = {
        {EXECUTOR_CAN_SHARE, can_share},       {EXECUTOR_CAN_REGISTER, can_register},
        {EXECUTOR_CAN_SET, can_set},           {EXECUTOR_CAN_REDUCE, can_reduce},
        {EXECUTOR_CAN_WORD, can_write_words},  {EXECUTOR_CAN_ABORT, can_abort},
        {EXECUTOR_CAN_KERNEL, can_load},       {EXECUTOR_CAN_PEER, can_reach_peer},
        {EXECUTOR_CAN_HEALTH, can_say_health},
    };
    struct probe p = {.library = library, .device = device};
    uint64_t capabilities = 0;

    if (vendor_acl.memory_new(library, device, BYTES, &p.memory) != 0)
        return 0;
    for (size_t i = 0; i < sizeof(tries) / sizeof(*tries); i++) {
        if (!p.lane && vendor_acl.lane_new(library, device, &p.lane) != 0)
            break;
        if (tries[i].can(&p))
            capabilities |= tries[i].bit;
    }
    if (p.lane)
        vendor_acl.lane_free(p.lane);
    vendor_acl.memory_free(library, &p.memory);
    return capabilities;
}
