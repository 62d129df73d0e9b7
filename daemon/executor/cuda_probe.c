#include "daemon/executor/cuda_probe.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "acl/error_codes/rt_error_codes.h"
#include "daemon/base/memfd.h"
#include "daemon/executor/vendor.h"

#define BYTES 4096u
#define WORD  UINT64_C(0x6e7075642d776f72)

/* For the oldest GPUs that drivers still know; they compile it for newer ones. */
static const char kernel[] = ".version 6.0\n"
                             ".target sm_50\n"
                             ".address_size 64\n"
                             ".visible .entry npud_probe() { ret; }\n";

/* Where it tries. */
struct probe {
    struct vendor_library *library;
    uint32_t device;
    struct vendor_lane *lane;
    struct vendor_memory memory;
};

/* All of the lane is over, and went well. */
static bool is_done(struct probe *p)
{
    return p->lane && vendor_cuda.lane_sync(&p->lane) == 0;
}

static bool reads_back(struct probe *p, const void *expected, uint64_t size)
{
    unsigned char bytes[64];

    return vendor_cuda.copy(p->lane, (uintptr_t)bytes, p->memory.address, size, VENDOR_TO_HOST) ==
               0 &&
           is_done(p) && memcmp(bytes, expected, size) == 0;
}

static bool can_share(struct probe *p)
{
    struct vendor_token token;
    struct vendor_memory again;
    bool can;

    if (vendor_cuda.memory_export(p->library, &p->memory, &token) != 0)
        return false;
    can = vendor_cuda.memory_import(p->library, p->device, p->memory.size, &token, &again) == 0;
    if (can)
        vendor_cuda.memory_free(p->library, &again);
    close(token.fd);
    return can;
}

static bool can_register(struct probe *p)
{
    void *pages;
    int fd;
    bool can;

    if (memfd_map_new("npud probe", BYTES, &fd, &pages) != 0)
        return false;
    can = vendor_cuda.host_attach(p->library, pages, BYTES) == 0;
    if (can)
        vendor_cuda.host_detach(p->library, pages);
    munmap(pages, BYTES);
    close(fd);
    return can;
}

static bool can_set(struct probe *p)
{
    unsigned char expected[64];

    memset(expected, 0xa5, sizeof(expected));
    return vendor_cuda.set(p->lane, p->memory.address, 0xa5, sizeof(expected)) == 0 &&
           reads_back(p, expected, sizeof(expected));
}

static bool can_write_words(struct probe *p)
{
    static const uint64_t word = WORD;

    return vendor_cuda.word_write(p->lane, p->memory.address, word) == 0 &&
           reads_back(p, &word, sizeof(word));
}

/* Without a compiler of PTX there are still binaries for this GPU: cuda.c knows if it loads any. */
static bool can_launch(struct probe *p)
{
    static const struct vendor_launch one = {.blocks = {1, 1, 1}, .threads = {1, 1, 1}};
    void *binary, *function;
    bool can;
    int32_t code =
        vendor_cuda.binary_load(p->library, p->device, kernel, sizeof(kernel), 0, &binary);

    if (code != 0)
        return code == ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
    can = vendor_cuda.function(p->library, binary, "npud_probe", &function) == 0 &&
          vendor_cuda.launch(p->lane, function, &one) == 0 && is_done(p);
    vendor_cuda.binary_free(p->library, binary);
    return can;
}

static uint64_t probe_with_memory(struct probe *p)
{
    uint64_t can = 0;

    if (can_share(p))
        can |= EXECUTOR_CAN_SHARE | EXECUTOR_CAN_FD;
    if (p->lane && can_set(p))
        can |= EXECUTOR_CAN_SET;
    if (p->lane && can_write_words(p))
        can |= EXECUTOR_CAN_WORD;
    if (p->lane && can_launch(p))
        can |= EXECUTOR_CAN_KERNEL;
    return can;
}

uint64_t cuda_probe(struct vendor_library *library, uint32_t device)
{
    struct probe p = {.library = library, .device = device};
    struct executor_health health;
    uint64_t can = 0;

    if (vendor_cuda.lane_new(library, device, &p.lane) != 0)
        return 0;
    if (vendor_cuda.memory_new(library, device, BYTES, &p.memory) == 0) {
        can = probe_with_memory(&p);
        vendor_cuda.memory_free(library, &p.memory);
    }
    if (can_register(&p))
        can |= EXECUTOR_CAN_REGISTER;
    if (vendor_cuda.health(library, device, &health) == 0)
        can |= EXECUTOR_CAN_HEALTH;
    if (p.lane)
        vendor_cuda.lane_free(p.lane);
    return can;
}
