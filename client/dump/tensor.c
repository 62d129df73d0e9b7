/* What a dump has in it: tensors of the program, and arguments of kernels. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "client/core/error.h"
#include "client/core/process.h"
#include "client/dump/dump.h"
#include "client/dump/dump_file.h"
#include "client/dump/dump_part.h"
#include "client/memory/alloc.h"
#include "client/memory/direct.h"
#include "client/runtime/context.h"
#include "client/runtime/device.h"
#include "proto/util/lift_fd.h"

#define FAILURE     ACL_ERROR_FAILURE
#define MEMORY_MAX  ((size_t)64 << 20) /* bytes of one allocation that a failure has in its file */
#define TENSORS_MAX 4096

/* --- reading --- */

/* Memory of the program that may not be there: the kernel reads it, and says so. */
static bool read_pageable(const void *address, void *to, size_t size)
{
    size_t done = 0;

    while (done < size) {
        struct iovec here = {(char *)to + done, size - done};
        struct iovec there = {(char *)(uintptr_t)address + done, size - done};
        ssize_t n = process_vm_readv(getpid(), &here, 1, &there, 1, 0);

        if (n <= 0)
            return false;
        done += (size_t)n;
    }
    return true;
}

/* Whatever memory is there. */
static bool read_memory(const void *address, void *to, size_t size)
{
    struct session *s = session_peek();
    struct error_saved ignored;
    struct place at = {.kind = PLACE_PAGEABLE};
    int error = 0;

    if (!address || size == 0)
        return false;
    error_save(&ignored);
    if (s && !session_lost(s))
        error = place_find(s, "", address, size, "", &at);
    if (error == 0 && s && !session_lost(s) && at.kind != PLACE_PAGEABLE)
        error = direct_read(s, "", &at, to, size);
    else if (error == 0)
        error = read_pageable(address, to, size) ? 0 : -1;
    error_save_end(&ignored);
    return error == 0;
}

/* --- writing --- */

static long long now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (long long)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Behind `path`, a point and the milliseconds of now, or of later if there is such a file. */
static bool begin_file(struct dump_file *f, char path[ACL_DUMP_MAX_FILE_PATH_LENGTH])
{
    size_t n = strlen(path), room = ACL_DUMP_MAX_FILE_PATH_LENGTH - n;

    for (long long ms = now_ms();; ms++) {
        if (snprintf(path + n, room, ".%lld", ms) >= (int)room)
            errno = ENAMETOOLONG;
        else if (dump_file_begin(f, path))
            return true;
        if (errno != EEXIST)
            return false;
    }
}

void dump_put_part(struct dump_file *f, cJSON *line, const void *bytes, size_t size)
{
    char *text;

    if (size > 0 && !bytes)
        cJSON_AddStringToObject(line, "error", "the memory cannot be read");
    cJSON_AddNumberToObject(line, "bytes", bytes ? (double)size : 0);
    text = cJSON_PrintUnformatted(line);
    cJSON_Delete(line);
    dump_file_print(f, "%s\n", text ? text : "{\"bytes\":0}");
    if (text && bytes)
        dump_file_put(f, bytes, size);
    dump_file_print(f, "\n");
    cJSON_free(text);
}

static void add_shape(cJSON *line, const char *key, const int64_t *shape, uint32_t n)
{
    cJSON *array = cJSON_AddArrayToObject(line, key);

    for (uint32_t i = 0; i < n && i < ACL_DUMP_MAX_SHAPE_NUM; i++)
        cJSON_AddItemToArray(array, cJSON_CreateNumber((double)shape[i]));
}

static cJSON *describe_tensor(const acldumpTensorInfo *t, size_t index)
{
    static const char *const types[] = {"input", "output", "workspace"};
    cJSON *line = cJSON_CreateObject();

    cJSON_AddNumberToObject(line, "tensor", (double)index);
    cJSON_AddStringToObject(line, "type", (unsigned)t->type < 3 ? types[t->type] : "unknown");
    cJSON_AddNumberToObject(line, "dataType", t->dataType);
    cJSON_AddNumberToObject(line, "format", t->format);
    add_shape(line, "shape", t->shape, t->shapeNum);
    add_shape(line, "originShape", t->originShape, t->originShapeNum);
    cJSON_AddNumberToObject(line, "size", (double)t->tensorSize);
    cJSON_AddStringToObject(line, "placement",
                            t->placement == ACL_DUMP_PLACEMENT_HOST ? "host" : "device");
    return line;
}

/* Where its bytes are; NULL: not known. */
static const void *address_of(const acldumpTensorInfo *t)
{
    const void *address = t->tensorAddr;

    if (t->addrType != ACL_DUMP_ADDR_PTR_PTR)
        return address;
    return read_memory(t->tensorAddr, &address, sizeof(address)) ? address : NULL;
}

static void put_tensor(struct dump_file *f, const acldumpTensorInfo *t, size_t index)
{
    const void *address = address_of(t);
    void *bytes = t->tensorSize > 0 ? malloc(t->tensorSize) : NULL;
    bool has = bytes && read_memory(address, bytes, t->tensorSize);

    dump_put_part(f, describe_tensor(t, index), has ? bytes : NULL, t->tensorSize);
    free(bytes);
}

/* --- of the program --- */

/* The device of the calling thread, as the program numbers it; 0: it has none. */
static int32_t current_device(void)
{
    struct context *c = context_peek(thread_self());
    int32_t id = c ? device_user_id(c->session, c->device) : 0;

    return id < 0 ? 0 : id;
}

static int error_off(const char *function)
{
    return error_set(FAILURE,
                     "%s: no exception dump is on: dump.dump_scene in the configuration of "
                     "aclInit, or ASCEND_DUMP_SCENE, turns it on",
                     function);
}

aclError acldumpGetExceptionInfoPath(char *path, size_t length)
{
    CALL_SCOPE;
    char folder[ACL_DUMP_MAX_FILE_PATH_LENGTH];

    RETURN_IF_ERROR(process_enter());
    REQUIRE(path);
    if (length <= 1)
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: length is %zu: too small", __func__, length);
    if (!dump_is_on(DUMP_EXCEPTION))
        return error_off(__func__);
    if (!dump_exception_folder(current_device(), folder, sizeof(folder)) ||
        strlen(folder) >= length)
        return error_set(ACL_ERROR_INVALID_PARAM,
                         "%s: length is %zu, and the path has %zu bytes with its end", __func__,
                         length, strlen(folder) + 1);
    strcpy(path, folder);
    return 0;
}

static int save_tensors(const char *function, char path[ACL_DUMP_MAX_FILE_PATH_LENGTH],
                        const char *op, const acldumpTensorInfo *tensors, size_t n)
{
    cJSON *head = cJSON_CreateObject();
    struct dump_file f;

    if (!begin_file(&f, path)) {
        cJSON_Delete(head);
        return error_set(FAILURE, "%s: %s cannot be written: %s", function, path, strerror(errno));
    }
    cJSON_AddStringToObject(head, "dump", "tensors");
    cJSON_AddStringToObject(head, "operator", op ? op : "");
    cJSON_AddNumberToObject(head, "tensors", (double)n);
    dump_put_part(&f, head, NULL, 0);
    for (size_t i = 0; i < n; i++)
        put_tensor(&f, &tensors[i], i);
    return dump_file_end(&f) ? 0
                             : error_set(FAILURE, "%s: %s was not written to its end, or not taken",
                                         function, path);
}

aclError acldumpSaveExceptionInfo(const char *fileName, const char *opName,
                                  const acldumpTensorInfo *tensors, size_t tensorNum)
{
    CALL_SCOPE;
    char folder[ACL_DUMP_MAX_FILE_PATH_LENGTH], path[ACL_DUMP_MAX_FILE_PATH_LENGTH];

    RETURN_IF_ERROR(process_enter());
    REQUIRE(fileName);
    if (!fileName[0] || strstr(fileName, "..") || strchr(fileName, '/'))
        return error_set(ACL_ERROR_INVALID_PARAM,
                         "%s: fileName is \"%s\", and must be a name without \"..\" and slashes",
                         __func__, fileName);
    REQUIRE(tensors);
    if (tensorNum == 0 || tensorNum > TENSORS_MAX)
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: tensorNum is %zu, and must be 1 to %d",
                         __func__, tensorNum, TENSORS_MAX);
    if (!dump_is_on(DUMP_EXCEPTION))
        return error_off(__func__);
    if (!dump_exception_folder(current_device(), folder, sizeof(folder)) ||
        snprintf(path, sizeof(path), "%s%s.custom", folder, fileName) >= (int)sizeof(path))
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: the path is too long", __func__);
    return save_tensors(__func__, path, opName, tensors, tensorNum);
}

/* --- of kernels --- */

void dump_put_args(struct dump_file *f, const void *args, size_t size)
{
    cJSON *line = cJSON_CreateObject();

    cJSON_AddStringToObject(line, "part", "arguments");
    dump_put_part(f, line, args, size);
}

/* The memory that a word of the arguments is an address of, if it is one. */
static void put_memory_of(struct dump_file *f, size_t at, uintptr_t word, bool with_bytes)
{
    struct session *s = session_peek();
    struct memory m;
    uintptr_t end;
    size_t size;
    cJSON *line;
    void *bytes;
    char text[32];

    if (!s || session_lost(s) || !memory_look_up(s, (void *)word, &m) || m.freed)
        return;
    end = (uintptr_t)m.mapped.start + memory_size_allocated(m.size);
    if (word >= end)
        return;
    size = end - word;
    if (size > MEMORY_MAX)
        size = MEMORY_MAX;
    bytes = with_bytes ? malloc(size) : NULL;
    line = cJSON_CreateObject();
    snprintf(text, sizeof(text), "0x%llx", (unsigned long long)word);
    cJSON_AddStringToObject(line, "part", "memory");
    cJSON_AddNumberToObject(line, "argsOffset", (double)at);
    cJSON_AddStringToObject(line, "address", text);
    cJSON_AddNumberToObject(line, "size", (double)size);
    dump_put_part(f, line, bytes && read_memory((void *)word, bytes, size) ? bytes : NULL,
                  with_bytes ? size : 0);
    free(bytes);
}

void dump_put_memory(struct dump_file *f, const void *args, size_t args_size, bool with_bytes)
{
    for (size_t at = 0; at + sizeof(uintptr_t) <= args_size; at += sizeof(uintptr_t)) {
        uintptr_t word;

        memcpy(&word, (const char *)args + at, sizeof(word));
        put_memory_of(f, at, word, with_bytes);
    }
}

static void put_failure(struct dump_file *f, const struct dump_failure *x)
{
    cJSON *head = cJSON_CreateObject();
    char address[32];

    snprintf(address, sizeof(address), "%p", x->address);
    cJSON_AddStringToObject(head, "dump", "failed kernel");
    cJSON_AddStringToObject(head, "kernel", x->kernel ? x->kernel : "");
    cJSON_AddNumberToObject(head, "device", x->device);
    cJSON_AddNumberToObject(head, "stream", x->stream);
    cJSON_AddNumberToObject(head, "task", x->task);
    cJSON_AddNumberToObject(head, "code", x->code);
    cJSON_AddNumberToObject(head, "block", x->block);
    cJSON_AddNumberToObject(head, "blocks", x->blocks);
    if (x->address)
        cJSON_AddStringToObject(head, "address", address);
    dump_put_part(f, head, NULL, 0);
    dump_put_args(f, x->args, x->args_size);
    if (!dump_is_on(1u << AIC_ERR_BRIEF_DUMP))
        dump_put_memory(f, x->args, x->args_size, true);
}

/* The kernel's file, under its own name. */
static void copy_binary(const char *from, const char *folder)
{
    const char *name = strrchr(from, '/') ? strrchr(from, '/') + 1 : from;
    char path[ACL_DUMP_MAX_FILE_PATH_LENGTH], *part = malloc(DUMP_PIECE);
    int fd = lift_fd(open(from, O_RDONLY | O_CLOEXEC));
    struct dump_file f;
    ssize_t n;

    if (part && fd >= 0 && snprintf(path, sizeof(path), "%s%s", folder, name) < (int)sizeof(path) &&
        dump_file_begin(&f, path)) {
        while ((n = read(fd, part, DUMP_PIECE)) > 0)
            dump_file_put(&f, part, (size_t)n);
        dump_file_end(&f);
    }
    if (fd >= 0)
        close(fd);
    free(part);
}

void dump_kernel_failure_slow(const struct dump_failure *f)
{
    char folder[ACL_DUMP_MAX_FILE_PATH_LENGTH], path[ACL_DUMP_MAX_FILE_PATH_LENGTH];
    struct dump_file file;

    if (!dump_exception_folder(f->device, folder, sizeof(folder)) ||
        snprintf(path, sizeof(path), "%sexception_info.%d.%u", folder, f->stream, f->task) >=
            (int)sizeof(path) ||
        !begin_file(&file, path))
        return;
    put_failure(&file, f);
    dump_file_end(&file);
    if (f->binary)
        copy_binary(f->binary, folder);
}

void dump_kernel_args_slow(const char *name, const void *args, size_t size,
                           const acldumpTensorInfo *tensors, size_t n)
{
    char path[ACL_DUMP_MAX_FILE_PATH_LENGTH];
    cJSON *head;
    struct dump_file f;

    if (!dump_take_args(name, size, path, sizeof(path)) || !dump_file_begin(&f, path))
        return;
    head = cJSON_CreateObject();
    cJSON_AddStringToObject(head, "dump", "arguments");
    cJSON_AddStringToObject(head, "kernel", name);
    dump_put_part(&f, head, NULL, 0);
    for (size_t i = 0; i < n; i++)
        dump_put_part(&f, describe_tensor(&tensors[i], i), NULL, 0);
    dump_put_args(&f, args, size);
    dump_file_end(&f);
}
