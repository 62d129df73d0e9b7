/*
 * Ranks of MPI on one host, which hand device memory to each other. MPI carries handles and keys at
 * the beginning, and one byte a round that says "submitted". The bytes themselves do not go through
 * MPI, no rank ever blocks until a copy is done, and the order of the work is that of events: a
 * stream waits for the record of another rank.
 *
 * Each rank passes on, round by round, what it has from its left neighbour. After as many rounds as
 * there are ranks, each must have its own bytes again.
 * usage: npu-run --devices 2 -- mpirun -n 4 ring [ROUNDS]
 */
#include <mpi.h>

#include "acl/acl.h"
#include "common/example.h"

#define BYTES  (1 << 20)
#define TAG    1
#define KEY_AT 65 /* length of a key, with its end */

/* What a rank tells its neighbours of itself. */
struct card {
    char memory[KEY_AT];        /* of what it passes on; for the right neighbour */
    aclrtIpcEventHandle filled; /* recorded by this rank: its memory has the bytes of this round */
    aclrtIpcEventHandle consumed; /* recorded by this rank: it has copied them from the left one */
};

struct rank {
    int number, left, right;
    aclrtStream stream;
    void *out, *in; /* what is passed on, and what came; device memory */
    void *left_out; /* the left neighbour's, by its key */
    char left_key[KEY_AT];
    aclrtEvent filled, consumed; /* own */
    aclrtEvent left_filled, right_consumed;
};

static aclrtEvent event_make(aclrtIpcEventHandle *handle)
{
    aclrtEvent event;

    CHECK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
    CHECK(aclrtIpcGetEventHandle(event, handle));
    return event;
}

static void memory_fill(void *device, int value)
{
    static unsigned char bytes[BYTES];

    memset(bytes, value, sizeof(bytes));
    CHECK(aclrtMemcpy(device, BYTES, bytes, BYTES, ACL_MEMCPY_HOST_TO_DEVICE));
}

static void memory_expect(void *device, int value)
{
    static unsigned char bytes[BYTES];

    CHECK(aclrtMemcpy(bytes, BYTES, device, BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
    for (size_t i = 0; i < BYTES; i++)
        if (bytes[i] != (unsigned char)value)
            fail("byte %zu is %d where %d was expected", i, bytes[i], value);
}

/* Devices in turns: neighbours have different ones, if there are several. */
static void rank_begin(struct rank *r, int size)
{
    uint32_t devices;

    r->left = (r->number + size - 1) % size;
    r->right = (r->number + 1) % size;
    CHECK(aclInit(NULL));
    CHECK(aclrtGetDeviceCount(&devices));
    CHECK(aclrtSetDevice(r->number % (int)devices));
    CHECK(aclrtCreateStream(&r->stream));
    CHECK(aclrtMalloc(&r->out, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtMalloc(&r->in, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    memory_fill(r->in, r->number);
}

static void rank_meet(struct rank *r)
{
    struct card mine = {0}, left, right;

    r->filled = event_make(&mine.filled);
    r->consumed = event_make(&mine.consumed);
    CHECK(aclrtIpcMemGetExportKey(r->out, BYTES, mine.memory, KEY_AT,
                                  ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION));
    MPI_Sendrecv(&mine, sizeof(mine), MPI_BYTE, r->right, TAG, &left, sizeof(left), MPI_BYTE,
                 r->left, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(&mine, sizeof(mine), MPI_BYTE, r->left, TAG, &right, sizeof(right), MPI_BYTE,
                 r->right, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(aclrtIpcOpenEventHandle(left.filled, &r->left_filled));
    CHECK(aclrtIpcOpenEventHandle(right.consumed, &r->right_consumed));
    memcpy(r->left_key, left.memory, KEY_AT);
    CHECK(aclrtIpcMemImportByKey(&r->left_out, r->left_key,
                                 ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS));
}

/* A wait is for the record that is the latest at the call: it must have been submitted before. */
static void say_submitted(int to, int from)
{
    char byte = 0;

    MPI_Sendrecv_replace(&byte, 1, MPI_BYTE, to, TAG, from, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void pass_on(struct rank *r)
{
    CHECK(aclrtMemcpyAsync(r->out, BYTES, r->in, BYTES, ACL_MEMCPY_DEVICE_TO_DEVICE, r->stream));
    CHECK(aclrtRecordEvent(r->filled, r->stream));
    say_submitted(r->right, r->left);
    CHECK(aclrtStreamWaitEvent(r->stream, r->left_filled));
    CHECK(
        aclrtMemcpyAsync(r->in, BYTES, r->left_out, BYTES, ACL_MEMCPY_DEVICE_TO_DEVICE, r->stream));
    CHECK(aclrtRecordEvent(r->consumed, r->stream));
    say_submitted(r->left, r->right);
    /* Not before that may the next round write into `out`. */
    CHECK(aclrtStreamWaitEvent(r->stream, r->right_consumed));
}

/* Memory that a neighbour has imported would stay for it: the order of these does not matter. */
static void rank_end(struct rank *r)
{
    CHECK(aclrtIpcMemClose(r->left_key));
    CHECK(aclrtDestroyEvent(r->left_filled));
    CHECK(aclrtDestroyEvent(r->right_consumed));
    CHECK(aclrtDestroyEvent(r->filled));
    CHECK(aclrtDestroyEvent(r->consumed));
    CHECK(aclrtFree(r->in));
    CHECK(aclrtFree(r->out));
    CHECK(aclrtDestroyStream(r->stream));
    CHECK(aclFinalize());
}

int main(int argc, char **argv)
{
    struct rank r = {0};
    int size, rounds;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &r.number);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    set_name("rank %d", r.number);
    rounds = argc > 1 ? atoi(argv[1]) : 3;
    rank_begin(&r, size);
    rank_meet(&r);
    for (int i = 1; i <= rounds * size; i++) {
        pass_on(&r);
        if (i == 1) {
            CHECK(aclrtSynchronizeStream(r.stream));
            memory_expect(r.in, r.left);
            say("has the bytes of rank %d", r.left);
        }
    }
    CHECK(aclrtSynchronizeStream(r.stream));
    memory_expect(r.in, r.number);
    say("has its own bytes again, after %d rounds", rounds * size);
    rank_end(&r);
    MPI_Finalize();
    return 0;
}
