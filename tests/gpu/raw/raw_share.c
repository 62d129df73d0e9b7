/* usage: raw_share: memory by a descriptor (VMM) to another process, whose maker is killed then. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/util/fd_message.h"
#include "tests/gpu/raw/raw.h"

#define SIZE (UINT64_C(64) << 20)

struct shared {
    int sockets[2];
    _Atomic uint64_t ready;
    uint64_t export_ns, import_ns, map_ns;
};

static cuda_address map_memory(struct raw *raw, cuda_handle handle)
{
    struct cuda_access access = {{CUDA_LOCATION_DEVICE, 0}, CUDA_ACCESS_READWRITE};
    cuda_address address;

    MUST(raw->cu.cuMemAddressReserve(&address, SIZE, 0, 0, 0));
    MUST(raw->cu.cuMemMap(address, SIZE, 0, handle, 0));
    MUST(raw->cu.cuMemSetAccess(address, SIZE, &access, 1));
    return address;
}

static int make(void *arg)
{
    struct shared *shared = arg;
    struct cuda_allocation allocation = {.type = CUDA_ALLOCATION_PINNED,
                                         .handle_types = CUDA_HANDLE_POSIX_FD,
                                         .location = {CUDA_LOCATION_DEVICE, 0}};
    struct raw raw;
    cuda_handle handle;
    char byte = 0;
    int fd;

    raw_begin(&raw);
    MUST(raw.cu.cuMemCreate(&handle, SIZE, &allocation, 0));
    MUST(raw.cu.cuMemsetD8Async(map_memory(&raw, handle), 0x5a, SIZE, raw.stream));
    MUST(raw.cu.cuStreamSynchronize(raw.stream));
    shared->export_ns = clock_ns();
    MUST(raw.cu.cuMemExportToShareableHandle(&fd, handle, CUDA_HANDLE_POSIX_FD, 0));
    shared->export_ns = clock_ns() - shared->export_ns;
    fd_message_send(shared->sockets[0], &byte, 1, &fd, 1, 0);
    pause();
    return 0;
}

static bool is_right(struct raw *raw, cuda_address address)
{
    static unsigned char bytes[4096];

    for (uint64_t at = 0; at < SIZE; at += SIZE / 8) {
        memset(bytes, 0, sizeof(bytes));
        MUST(raw->cu.cuMemcpyDtoHAsync_v2(bytes, address + at, sizeof(bytes), raw->stream));
        MUST(raw->cu.cuStreamSynchronize(raw->stream));
        for (size_t i = 0; i < sizeof(bytes); i++)
            if (bytes[i] != 0x5a)
                return false;
    }
    return true;
}

int main(void)
{
    struct shared *shared = raw_share(sizeof(*shared));
    int fds[FD_MESSAGE_FDS];
    size_t n = 0;
    char byte;
    bool before, after;
    struct raw raw;
    cuda_handle handle;
    cuda_address address;
    pid_t maker;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, shared->sockets) != 0)
        return 1;
    maker = raw_fork(make, shared);
    close(shared->sockets[0]);
    raw_begin(&raw);
    if (fd_message_receive(shared->sockets[1], &byte, 1, fds, &n, 0) != 1 || n != 1)
        raw_fail("fd_message_receive", 0);
    shared->import_ns = clock_ns();
    MUST(raw.cu.cuMemImportFromShareableHandle(&handle, (void *)(uintptr_t)(unsigned)fds[0],
                                               CUDA_HANDLE_POSIX_FD));
    shared->map_ns = clock_ns();
    shared->import_ns = shared->map_ns - shared->import_ns;
    address = map_memory(&raw, handle);
    shared->map_ns = clock_ns() - shared->map_ns;
    close(fds[0]);
    before = is_right(&raw, address);
    kill(maker, SIGKILL);
    raw_reap(maker);
    clock_sleep_until(clock_ns() + NSEC_PER_SEC / 2); /* what the driver does after a death */
    after = is_right(&raw, address);
    printf("{\"row\": \"memory by descriptor\", \"export_us\": %.0f, \"import_us\": %.0f, "
           "\"map_us\": %.0f, \"right\": %s, \"right_after_death\": %s}\n",
           (double)shared->export_ns / 1e3, (double)shared->import_ns / 1e3,
           (double)shared->map_ns / 1e3, before ? "true" : "false", after ? "true" : "false");
    return before && after ? 0 : 1;
}
