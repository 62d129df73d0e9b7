#include "client/kernel/kernel_args.h"

#include <stdlib.h>
#include <string.h>

#include "client/core/error.h"
#include "client/core/lifecycle.h"
#include "client/runtime/context.h"

#define PARAMS_MAX 128u
#define ROOM       ((size_t)64 << 10) /* of a list in library memory */
#define MARK       UINT64_C(0x4e4b61726773214e)

enum list_state { LIST_OPEN, LIST_BUFFERS, LIST_READY, LIST_UPDATING };

struct param {
    uint32_t offset, size;
    bool placeholder;
    bool filled; /* a placeholder that has its buffer */
};

/*
 * The reference has lists of which the library owns nothing, so a handle is an address; the mark
 * tells what is none in most cases.
 */
struct arguments {
    uint64_t mark;
    enum list_state state;
    bool packed; /* a CPU's kernel: without padding */
    uint32_t n, n_placeholders;
    size_t room, used;
    unsigned char *bytes;
    struct param param[PARAMS_MAX];
    aclrtPlaceHolderInfo placeholder[PARAMS_MAX];
};

/* A thread has one list in library memory, as the reference has it. */
static __thread struct arguments *of_thread;

static struct arguments *find_list(const char *api, void *handle, int *error)
{
    struct arguments *a = handle;

    *error = handle ? 0 : error_null(api, "argsHandle");
    if (a && (uintptr_t)a % _Alignof(struct arguments) == 0 && a->mark == MARK)
        return a;
    if (handle)
        *error = error_set(ACL_ERROR_RT_INVALID_HANDLE, "%s: this is no list of arguments", api);
    return NULL;
}

/* Is func a function? *cpu: a kernel of a device's CPU. */
static int check_function(const char *api, const void *func, bool *cpu)
{
    struct kernel_function *f;
    int error;

    pthread_mutex_lock(&process->kernel_lock);
    f = kernel_function_find(api, func, &error);
    if (f)
        *cpu = f->kernel.kind == ACL_KERNEL_TYPE_AICPU;
    pthread_mutex_unlock(&process->kernel_lock);
    return error;
}

static void begin_list(struct arguments *a, void *bytes, size_t room, bool packed)
{
    a->mark = MARK;
    a->state = LIST_OPEN;
    a->packed = packed;
    a->n = a->n_placeholders = 0;
    a->bytes = bytes;
    a->room = room;
    a->used = 0;
}

aclError aclrtKernelArgsInit(aclrtFuncHandle funcHandle, aclrtArgsHandle *argsHandle)
{
    CALL_SCOPE;
    bool packed = false;

    REQUIRE(argsHandle);
    RETURN_IF_ERROR(check_function(__func__, funcHandle, &packed));
    (void)thread_self(); /* so that the list is freed with the thread */
    if (!of_thread)
        of_thread = malloc(sizeof(*of_thread) + ROOM);
    if (!of_thread)
        return error_no_memory(__func__);
    begin_list(of_thread, of_thread + 1, ROOM, packed);
    *argsHandle = of_thread;
    return 0;
}

aclError aclrtKernelArgsGetHandleMemSize(aclrtFuncHandle funcHandle, size_t *memSize)
{
    CALL_SCOPE;
    bool packed = false;

    REQUIRE(memSize);
    RETURN_IF_ERROR(check_function(__func__, funcHandle, &packed));
    *memSize = sizeof(struct arguments) + _Alignof(struct arguments);
    return 0;
}

aclError aclrtKernelArgsGetMemSize(aclrtFuncHandle funcHandle, size_t userArgsSize,
                                   size_t *actualArgsSize)
{
    CALL_SCOPE;
    bool packed = false;

    REQUIRE(actualArgsSize);
    RETURN_IF_ERROR(check_function(__func__, funcHandle, &packed));
    /* Each parameter may begin up to 7 bytes further; there are no hidden ones. */
    *actualArgsSize = packed ? userArgsSize : userArgsSize + (size_t)8 * PARAMS_MAX;
    return 0;
}

aclError aclrtKernelArgsInitByUserMem(aclrtFuncHandle funcHandle, aclrtArgsHandle argsHandle,
                                      void *userHostMem, size_t actualArgsSize)
{
    CALL_SCOPE;
    bool packed = false;

    REQUIRE(argsHandle);
    REQUIRE(userHostMem);
    RETURN_IF_ERROR(check_function(__func__, funcHandle, &packed));
    if (actualArgsSize == 0)
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: actualArgsSize is 0", __func__);
    if ((uintptr_t)argsHandle % _Alignof(struct arguments) != 0)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: argsHandle must be aligned to %zu bytes",
                         __func__, _Alignof(struct arguments));
    begin_list(argsHandle, userHostMem, actualArgsSize, packed);
    return 0;
}

/* --- parameters --- */

static int list_is_full(const char *api, const struct arguments *a, size_t size)
{
    return error_set(ACL_ERROR_RT_PARAM_INVALID,
                     "%s: no room for %zu bytes: the list has %u parameters in %zu of %zu bytes",
                     api, size, a->n, a->used, a->room);
}

/* Room for `size` bytes behind what is there, aligned; NULL: there is none. */
static unsigned char *take_room(struct arguments *a, size_t size, size_t align)
{
    size_t at = (a->used + align - 1) / align * align;

    if (at > a->room || size > a->room - at)
        return NULL;
    memset(a->bytes + a->used, 0, at - a->used);
    a->used = at + size;
    return a->bytes + at;
}

static int append(const char *api, struct arguments *a, const void *bytes, size_t size,
                  bool placeholder, aclrtParamHandle *handle)
{
    unsigned char *at;

    if (a->state != LIST_OPEN)
        return error_set(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                         "%s: the list takes no parameters after %s", api,
                         a->state == LIST_BUFFERS ? "aclrtKernelArgsGetPlaceHolderBuffer"
                                                  : "aclrtKernelArgsFinalize");
    at = a->n < PARAMS_MAX && size <= UINT32_MAX ? take_room(a, size, a->packed ? 1 : 8) : NULL;
    if (!at)
        return list_is_full(api, a, size);
    if (bytes)
        memcpy(at, bytes, size);
    else
        memset(at, 0, size);
    a->param[a->n] = (struct param){
        .offset = (uint32_t)(at - a->bytes), .size = (uint32_t)size, .placeholder = placeholder};
    *handle = &a->param[a->n++];
    return 0;
}

aclError aclrtKernelArgsAppend(aclrtArgsHandle argsHandle, void *param, size_t paramSize,
                               aclrtParamHandle *paramHandle)
{
    CALL_SCOPE;
    struct arguments *a = FIND_OR_RETURN(find_list, __func__, argsHandle);

    REQUIRE(param);
    REQUIRE(paramHandle);
    if (paramSize == 0)
        return error_set(ACL_ERROR_INVALID_PARAM, "aclrtKernelArgsAppend: paramSize is 0");
    return append(__func__, a, param, paramSize, false, paramHandle);
}

aclError aclrtKernelArgsAppendPlaceHolder(aclrtArgsHandle argsHandle, aclrtParamHandle *paramHandle)
{
    CALL_SCOPE;
    struct arguments *a = FIND_OR_RETURN(find_list, __func__, argsHandle);

    REQUIRE(paramHandle);
    return append(__func__, a, NULL, sizeof(uint64_t), true, paramHandle);
}

static struct param *find_param(const char *api, struct arguments *a, const void *handle,
                                int *error)
{
    uintptr_t from = (uintptr_t)handle - (uintptr_t)a->param;

    *error = handle ? 0 : error_null(api, "paramHandle");
    if (handle && from < a->n * sizeof(struct param) && from % sizeof(struct param) == 0)
        return &a->param[from / sizeof(struct param)];
    if (handle)
        *error = error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: this is no parameter of the list", api);
    return NULL;
}

aclError aclrtKernelArgsGetPlaceHolderBuffer(aclrtArgsHandle argsHandle,
                                             aclrtParamHandle paramHandle, size_t dataSize,
                                             void **bufferAddr)
{
    CALL_SCOPE;
    struct arguments *a = FIND_OR_RETURN(find_list, __func__, argsHandle);
    struct param *p = FIND_OR_RETURN(find_param, __func__, a, paramHandle);
    unsigned char *at;

    REQUIRE(bufferAddr);
    if (!p->placeholder || dataSize == 0)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: %s", __func__,
                         p->placeholder ? "dataSize is 0" : "the parameter is no placeholder");
    if (a->state == LIST_READY || a->state == LIST_UPDATING)
        return error_set(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "%s: the list was finalized", __func__);
    at = p->filled ? NULL : take_room(a, dataSize, 8);
    if (!at)
        return list_is_full(__func__, a, dataSize);
    memset(at, 0, dataSize);
    p->filled = true;
    a->placeholder[a->n_placeholders++] =
        (aclrtPlaceHolderInfo){.addrOffset = p->offset, .dataOffset = (uint32_t)(at - a->bytes)};
    a->state = LIST_BUFFERS;
    *bufferAddr = at;
    return 0;
}

aclError aclrtKernelArgsParaUpdate(aclrtArgsHandle argsHandle, aclrtParamHandle paramHandle,
                                   void *param, size_t paramSize)
{
    CALL_SCOPE;
    struct arguments *a = FIND_OR_RETURN(find_list, __func__, argsHandle);
    struct param *p = FIND_OR_RETURN(find_param, __func__, a, paramHandle);

    REQUIRE(param);
    if (p->placeholder || paramSize != p->size)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "aclrtKernelArgsParaUpdate: the parameter %s: it has %u bytes",
                         p->placeholder ? "is a placeholder" : "has another size", p->size);
    memcpy(a->bytes + p->offset, param, paramSize);
    if (a->state == LIST_READY)
        a->state = LIST_UPDATING;
    return 0;
}

aclError aclrtKernelArgsFinalize(aclrtArgsHandle argsHandle)
{
    CALL_SCOPE;
    struct arguments *a = FIND_OR_RETURN(find_list, __func__, argsHandle);

    FIND_OR_RETURN(context_get, __func__);
    a->state = LIST_READY;
    return 0;
}

int kernel_args_use(const char *api, aclrtArgsHandle handle, struct kernel_launch *launch)
{
    struct arguments *a = FIND_OR_RETURN(find_list, api, handle);

    if (a->state != LIST_READY)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: the list of arguments is not finalized: call "
                         "aclrtKernelArgsFinalize after the last change",
                         api);
    launch->args = a->bytes;
    launch->size = a->used;
    launch->placeholders = a->placeholder;
    launch->n_placeholders = a->n_placeholders;
    return 0;
}

static void free_list(struct thread *unused)
{
    (void)unused;
    free(of_thread);
    of_thread = NULL;
}

const struct part kernel_args_part = {.thread_exit = free_list};
