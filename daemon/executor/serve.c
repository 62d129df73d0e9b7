#include "daemon/executor/serve.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "acl/error_codes/rt_error_codes.h"
#include "daemon/executor/answer.h"
#include "daemon/executor/handled.h"
#include "daemon/executor/host_pages.h"
#include "daemon/executor/lane.h"
#include "daemon/executor/library.h"
#include "daemon/executor/executor_object.h"
#include "proto/util/fd_message.h"

/** A request, and its answer as it is being made. */
struct call {
    const struct executor_request *request;
    int fds[FD_MESSAGE_FDS]; /* -1: it has found another owner */
    size_t n_fds;
    struct executor_answer answer;
    struct {
        const void *data; /* behind the answer; NULL: nothing */
        size_t size;
        int fd; /* along with it, and then closed; -1: none */
    } more;
    bool later; /* another thread answers */
};

static struct {
    int32_t load_code; /* why there is no library: 0: there is one */
    const char *why;
    bool greeted; /* HELLO went well */
} server;

static int take_fd(struct call *call, unsigned i)
{
    int fd = call->fds[i];

    call->fds[i] = -1;
    return fd;
}

static bool has_name(const struct executor_request *request)
{
    return memchr(request->name, '\0', sizeof(request->name)) != NULL;
}

/* --- hello --- */

static void *map_file(int fd, size_t size, int rights)
{
    struct stat st;
    void *map;

    if (fstat(fd, &st) < 0 || st.st_size < (off_t)size)
        return NULL;
    map = mmap(NULL, size, rights, MAP_SHARED, fd, 0);
    return map == MAP_FAILED ? NULL : map;
}

static int32_t map_files(const struct call *call)
{
    const struct executor_ring *ring = map_file(call->fds[0], sizeof(*ring), PROT_READ);
    struct executor_page *page = map_file(call->fds[1], sizeof(*page), PROT_READ | PROT_WRITE);

    if (!ring || !page)
        return library_refuses("ring or page cannot be mapped");
    lanes_set_up(ring, page);
    return 0;
}

static int32_t on_hello(struct call *call)
{
    int32_t code = server.load_code;

    if (call->request->value != EXECUTOR_VERSION) {
        vendor_set_text("npud has version %llu of the protocol, and npud-executor %u",
                        (unsigned long long)call->request->value, EXECUTOR_VERSION);
        return ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
    }
    if (server.greeted)
        return library_refuses("hello was said before");
    if (code != 0)
        vendor_set_text("%s", server.why);
    else
        code = map_files(call);
    server.greeted = code == 0;
    call->answer.value = library.devices;
    return code;
}

/* --- devices --- */

static int32_t on_device_begin(struct call *call)
{
    return library_device_begin(call->request->device, take_fd(call, 0));
}

/* First what the library wants to have back before it ends a device. */
static int32_t on_device_end(struct call *call)
{
    uint32_t device = call->request->device;
    int32_t code = 0;

    if (library_enter_to_free(device)) {
        code = lanes_leave_device(device);
        if (code != 0)
            return code;
        object_drop_all(device);
        host_pages_forget(device);
    }
    return library_device_end(device);
}

static int32_t on_device_info(struct call *call)
{
    static struct executor_device_info info;
    int32_t code = library_enter(call->request->device);

    if (code == 0)
        code = library.vendor->device_info(library.open, call->request->device, &info);
    call->more.data = &info;
    call->more.size = sizeof(info);
    return code;
}

static int32_t on_health(struct call *call)
{
    static struct executor_health health;
    int32_t code = library_enter(call->request->device);

    if (code == 0)
        code = library.vendor->health
                   ? library.vendor->health(library.open, call->request->device, &health)
                   : library_lacks("word on the health of a device");
    call->more.data = &health;
    call->more.size = sizeof(health);
    return code;
}

/* --- memory --- */

/* It is the table's, or is given back. */
static int32_t add_memory(struct call *call, struct object *object)
{
    int32_t code = object_add(call->request->handle, object);

    if (code != 0) {
        library.vendor->memory_free(library.open, &object->memory);
        free(object);
        return code;
    }
    call->answer.address = object->memory.address;
    call->answer.size = object->memory.size;
    return 0;
}

/* Where the library cannot set memory, it is copied from zeros. */
static int32_t give_zeros(struct vendor_lane *queue, const struct vendor_memory *memory)
{
    static const unsigned char zeros[1 << 16];
    const struct vendor *vendor = library.vendor;
    int32_t code = ACL_ERROR_RT_FEATURE_NOT_SUPPORT;

    if (vendor->set)
        code = vendor->set(queue, memory->address, 0, memory->size);
    if (code != ACL_ERROR_RT_FEATURE_NOT_SUPPORT)
        return code;
    code = 0;
    for (uint64_t done = 0; code == 0 && done < memory->size; done += sizeof(zeros)) {
        uint64_t left = memory->size - done;

        code = vendor->copy(queue, memory->address + done, (uintptr_t)zeros,
                            left < sizeof(zeros) ? left : sizeof(zeros), VENDOR_TO_DEVICE);
    }
    return code;
}

/* What the device gives out may be what another program had there. */
static int32_t clear_memory(const struct vendor_memory *memory)
{
    struct vendor_lane *queue = NULL;
    int32_t code = library.vendor->lane_new(library.open, memory->device, &queue), end;

    if (code != 0)
        return code;
    code = give_zeros(queue, memory);
    end = library.vendor->lane_sync(&queue);
    if (queue)
        library.vendor->lane_free(queue);
    return code != 0 ? code : end;
}

static int32_t make_memory(const struct executor_request *request, struct vendor_memory *memory)
{
    const struct vendor *vendor = library.vendor;
    int32_t code = vendor->memory_new(library.open, request->device, request->size, memory);

    if (code != 0)
        return code;
    code = clear_memory(memory);
    if (code != 0)
        vendor->memory_free(library.open, memory);
    return code;
}

static int32_t on_memory_new(struct call *call)
{
    const struct executor_request *request = call->request;
    struct object *object;
    int32_t code = library_enter(request->device);

    if (code != 0)
        return code;
    object = object_new(OBJECT_MEMORY, request->device);
    if (!object)
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    code = make_memory(request, &object->memory);
    if (code == 0)
        return add_memory(call, object);
    free(object);
    return code;
}

static int32_t on_memory_free(struct call *call)
{
    object_drop(call->request->handle);
    return 0;
}

static int32_t export_memory(struct call *call, struct object *object)
{
    struct vendor_token token = {.fd = -1};
    int32_t code = library_enter(object->device);

    if (code == 0)
        code = library.vendor->memory_export(library.open, &object->memory, &token);
    if (code != 0)
        return code;
    call->more.fd = token.fd;
    memcpy(call->answer.token, token.bytes, sizeof(token.bytes));
    token.fd = -1;
    object->token = token;
    return 0;
}

static int32_t on_memory_export(struct call *call)
{
    struct object *object = object_use(call->request->handle, OBJECT_MEMORY);
    int32_t code = ACL_ERROR_RT_INVALID_HANDLE;

    if (object)
        code = library.vendor->memory_export ? export_memory(call, object)
                                             : library_lacks("way to share memory");
    object_leave(object);
    return code;
}

static int32_t on_memory_allow(struct call *call)
{
    struct object *object = object_use(call->request->handle, OBJECT_MEMORY);
    int32_t code = object ? library_enter(object->device) : ACL_ERROR_RT_INVALID_HANDLE;

    if (code == 0)
        code = library.vendor->memory_allow
                   ? library.vendor->memory_allow(library.open, &object->memory, &object->token,
                                                  (int32_t)call->request->value)
                   : library_lacks("way to share memory");
    object_leave(object);
    return code;
}

static int32_t import_memory(struct call *call, struct vendor_memory *memory)
{
    const struct executor_request *request = call->request;
    struct vendor_token token = {.fd = call->n_fds > 0 ? call->fds[0] : -1};
    int32_t code = library_enter(request->device);

    memcpy(token.bytes, request->token, sizeof(token.bytes));
    if (code != 0)
        return code;
    if (!library.vendor->memory_import)
        return library_lacks("way to share memory");
    return library.vendor->memory_import(library.open, request->device, request->size, &token,
                                         memory);
}

static int32_t on_memory_import(struct call *call)
{
    struct object *object = object_new(OBJECT_MEMORY, call->request->device);
    int32_t code;

    if (!object)
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    code = import_memory(call, &object->memory);
    if (code == 0)
        return add_memory(call, object);
    free(object);
    return code;
}

static int32_t on_host_attach(struct call *call)
{
    struct object *object = object_new(OBJECT_PAGES, 0);
    int32_t code;

    if (!object)
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    code = host_pages_map(&object->pages, call->fds[0], call->request->size);
    if (code == 0) {
        code = object_add(call->request->handle, object);
        if (code == 0)
            return 0;
        host_pages_unmap(&object->pages);
    }
    free(object);
    return code;
}

static int32_t on_list(struct call *call)
{
    static uint64_t handles[EXECUTOR_LIST_MOST];
    uint32_t at =
        call->request->value < EXECUTOR_HANDLES ? (uint32_t)call->request->value : EXECUTOR_HANDLES;

    call->answer.more = object_list(&at, handles, EXECUTOR_LIST_MOST);
    call->answer.value = at;
    call->more.data = handles;
    call->more.size = call->answer.more * sizeof(*handles);
    return 0;
}

/* --- binaries --- */

/* A copy: nobody can change or cut what the library reads. NULL, and vendor_text(). */
static void *read_file(int fd, uint64_t size)
{
    struct stat st;
    unsigned char *file;
    ssize_t n = 1;

    if (fstat(fd, &st) < 0 || size == 0 || size > (uint64_t)st.st_size) {
        library_refuses("the file of a binary is smaller than what was said");
        return NULL;
    }
    file = malloc(size);
    for (uint64_t done = 0; file && done < size && n > 0; done += (uint64_t)n)
        n = pread(fd, file + done, size - done, (off_t)done);
    if (file && n > 0)
        return file;
    free(file);
    vendor_set_text("the file of a binary cannot be read");
    return NULL;
}

static int32_t load_binary(struct call *call, struct object *object)
{
    const struct executor_request *request = call->request;
    void *file = read_file(call->fds[0], request->size);
    int32_t code;

    if (!file)
        return ACL_ERROR_RT_PARAM_INVALID;
    code = library.vendor->binary_load(library.open, request->device, file, request->size,
                                       (uint32_t)request->value, &object->binary);
    free(file);
    if (code != 0)
        return code;
    code = object_add(request->handle, object);
    if (code != 0 && library.vendor->binary_free)
        library.vendor->binary_free(library.open, object->binary);
    return code;
}

static int32_t on_binary_load(struct call *call)
{
    struct object *object;
    int32_t code = library_enter(call->request->device);

    if (code != 0)
        return code;
    if (!library.vendor->binary_load || !library.vendor->function)
        return library_lacks("kernels");
    object = object_new(OBJECT_BINARY, call->request->device);
    if (!object)
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    code = load_binary(call, object);
    if (code != 0)
        free(object);
    return code;
}

static int32_t add_function(const struct executor_request *request, struct object *binary)
{
    void *function = NULL;
    int32_t code = library_enter(binary->device);

    if (code == 0)
        code = library.vendor->function(library.open, binary->binary, request->name, &function);
    return code != 0 ? code : object_add_function(binary, (uint32_t)request->value, function);
}

static int32_t on_function(struct call *call)
{
    struct object *binary = object_use(call->request->handle, OBJECT_BINARY);
    int32_t code = ACL_ERROR_RT_INVALID_HANDLE;

    if (binary)
        code = has_name(call->request) && call->request->value <= UINT32_MAX
                   ? add_function(call->request, binary)
                   : library_refuses("a name or a number that no function can have");
    object_leave(binary);
    return code;
}

/* --- lanes --- */

static int32_t on_lane_begin(struct call *call)
{
    lane_begin(call->request->value);
    return 0;
}

static int32_t on_lane_abort(struct call *call)
{
    return lane_abort(call->request->value, call->request->size, call->request->number,
                      &call->later);
}

/* --- all requests --- */

static const struct row {
    int32_t (*handle)(struct call *call);
    unsigned char fds, fds_max; /* at least so many, and at most */
    bool silent;                /* without an answer */
} rows[EXECUTOR_REQUESTS] = {
    [EXECUTOR_HELLO] = {on_hello, 2, 2},
    [EXECUTOR_DEVICE_INFO] = {on_device_info},
    [EXECUTOR_DEVICE_BEGIN] = {on_device_begin, 1, 1},
    [EXECUTOR_DEVICE_END] = {on_device_end},
    [EXECUTOR_MEMORY_NEW] = {on_memory_new},
    [EXECUTOR_MEMORY_FREE] = {on_memory_free, .silent = true},
    [EXECUTOR_MEMORY_EXPORT] = {on_memory_export},
    [EXECUTOR_MEMORY_ALLOW] = {on_memory_allow},
    [EXECUTOR_MEMORY_IMPORT] = {on_memory_import, 0, 1},
    [EXECUTOR_HOST_ATTACH] = {on_host_attach, 1, 1, true},
    [EXECUTOR_BINARY_LOAD] = {on_binary_load, 1, 1},
    [EXECUTOR_FUNCTION] = {on_function},
    [EXECUTOR_LANE_BEGIN] = {on_lane_begin, .silent = true},
    [EXECUTOR_LANE_ABORT] = {on_lane_abort},
    [EXECUTOR_HEALTH] = {on_health},
    [EXECUTOR_LIST] = {on_list},
};

static int32_t handle(const struct row *row, struct call *call)
{
    if (!row || !row->handle) {
        vendor_set_text("npud-executor knows no request %u", call->request->op);
        return ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
    }
    if (!server.greeted && call->request->op != EXECUTOR_HELLO)
        return library_refuses("a request before hello");
    if (call->n_fds < row->fds || call->n_fds > row->fds_max)
        return library_refuses("a request with too few or too many descriptors");
    return row->handle(call);
}

/* npud ends an executor that has lost its device, by this code alone (docs/hardware.md). */
static int32_t name_loss(const struct executor_request *request, int32_t code)
{
    return code == ACL_ERROR_RT_SOCKET_CLOSE || (code != 0 && library_gone(request->device) != 0)
               ? ACL_ERROR_RT_LOST_HEARTBEAT
               : code;
}

static void answer(struct call *call)
{
    bool well = call->answer.code == 0;

    answer_send(&call->answer, call->more.data, well ? call->more.size : 0, call->more.fd);
}

static void serve_request(struct call *call)
{
    const struct executor_request *request = call->request;
    const struct row *row = request->op < EXECUTOR_REQUESTS ? &rows[request->op] : NULL;

    call->answer = (struct executor_answer){
        .op = request->op, .number = request->number, .handle = request->handle};
    call->more.fd = -1;
    vendor_set_text("%s", "");
    call->answer.code = name_loss(request, handle(row, call));
    /* Before the answer: work that npud gives out because of it finds all done. */
    handled_set(request->number);
    if ((!row || !row->silent) && !call->later)
        answer(call);
    if (call->more.fd >= 0)
        close(call->more.fd);
    for (size_t i = 0; i < call->n_fds; i++)
        if (call->fds[i] >= 0)
            close(call->fds[i]);
}

/* npud is not the one that this was built for, or has lost its mind. To go on would be to guess. */
static _Noreturn void give_up(const char *what)
{
    fprintf(stderr, "npud-executor: npud does not keep to the protocol: %s\n", what);
    _exit(1);
}

_Noreturn void serve(int32_t code, const char *why)
{
    uint64_t last = 0;

    server.load_code = code;
    server.why = why;
    for (;;) {
        struct executor_request request;
        struct call call = {.request = &request};
        ssize_t n = fd_message_receive(EXECUTOR_SOCKET, &request, sizeof(request), call.fds,
                                       &call.n_fds, 0);

        if (n == 0 || (n < 0 && n != -EBADMSG))
            answer_nobody((int)n);
        if (n != sizeof(request))
            give_up("a message of another size than a request");
        if (request.number <= last)
            give_up("a request with a number that was there before");
        last = request.number;
        serve_request(&call);
    }
}
