/* Kernels of devices that are away: files that their library loads, and functions in them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "acl/error_codes/rt_error_codes.h"
#include "daemon/backend/making.h"

static void keep_refusal(struct making *making, const struct executor_answer *answer)
{
    struct backend_space *space = making->space;

    if (space)
        snprintf(space->refusal, sizeof(space->refusal), "%s", answer->text);
}

/* The library knows why it takes none: its words are for the program. */
static int judge_kernels(struct making *making, const struct executor_answer *answer)
{
    struct executor *x = making->asked.executor;

    if (!answer)
        return -EOWNERDEAD;
    if (answer->code == ACL_ERROR_RT_MEMORY_ALLOCATION)
        return -ENODATA;
    if (answer->code != 0) {
        keep_refusal(making, answer);
        return -EBADMSG;
    }
    if (answer->handle == making->handle)
        return 0;
    executor_end(x, "it has answered for another binary than was asked for");
    return -EOWNERDEAD;
}

static void binary_over(struct asked *asked, const struct executor_answer *answer, int fd)
{
    struct making *making = (struct making *)asked;
    int r = judge_kernels(making, answer);

    if (fd >= 0)
        close(fd);
    if (r == 0 && making->memory)
        making->memory->binary = true;
    making_end(making, r);
}

int away_binary_new(void *state, struct backend_space *space, uint32_t device,
                    struct backend_memory *file, uint64_t size, uint32_t magic,
                    struct backend_memory **binary)
{
    struct executor_request request = {
        .op = EXECUTOR_BINARY_LOAD, .device = device, .size = size, .value = magic};
    const struct executors *all = state;

    making_forget_other(space, EXECUTOR_BINARY_LOAD);
    if (space->making)
        return making_take(space, binary);
    if (!(all->info[device].capabilities & EXECUTOR_CAN_KERNEL))
        return -EOPNOTSUPP;
    return making_ask(space, &request, binary_over, &file->pages->fd, 1);
}

static void function_over(struct asked *asked, const struct executor_answer *answer, int fd)
{
    struct making *making = (struct making *)asked;

    if (fd >= 0)
        close(fd);
    making_end(making, judge_kernels(making, answer));
}

/* The binary is kept meanwhile: as what is being imported. */
static int ask_for_function(struct backend_space *space, struct backend_memory *binary,
                            struct executor_request *request)
{
    struct making *making = calloc(1, sizeof(*making));
    int r;

    if (!making)
        return -ENOMEM;
    making->space = space;
    making->fd = -1;
    making->handle = binary->handle;
    making->origin = binary;
    binary->holders++;
    r = executor_ask(binary->executor, &making->asked, function_over, request, NULL, 0);
    if (r < 0) {
        making_free(making);
        return r;
    }
    space->making = making;
    return -EINPROGRESS;
}

int away_function_new(void *state, struct backend_space *space, struct backend_memory *binary,
                      const char *name, uint32_t number)
{
    struct executor_request request = {
        .op = EXECUTOR_FUNCTION, .handle = binary->handle, .value = number};
    struct backend_memory *none;

    (void)state;
    making_forget_other(space, EXECUTOR_FUNCTION);
    if (space->making)
        return making_take(space, &none);
    if (binary->executor != space->executor || !away_has_executor(space))
        return -EOWNERDEAD;
    snprintf(request.name, sizeof(request.name), "%s", name);
    return ask_for_function(space, binary, &request);
}

const char *away_refusal(const struct backend_space *space)
{
    return space->refusal;
}
