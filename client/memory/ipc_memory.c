#include "client/memory/ipc_memory.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "acl/acl.h"
#include "client/core/error.h"
#include "client/memory/alloc.h"
#include "client/memory/export.h"
#include "client/runtime/context.h"

static int bad_flags(const char *function, uint64_t flags)
{
    return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: flags are 0x%llx, must be 0 or 1", function,
                     (unsigned long long)flags);
}

static int check_export(const char *function, size_t size, size_t len, uint64_t flags)
{
    if (size == 0)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: size is 0", function);
    if (len < EXPORT_KEY_SIZE)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: a key takes %d bytes, len is %zu",
                         function, EXPORT_KEY_SIZE, len);
    return flags > ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION ? bad_flags(function, flags)
                                                                     : 0;
}

static __attribute__((cold, noinline)) void note_export(const struct memory *m, size_t size,
                                                        const char *key)
{
    struct check_memory record = {
        .r.kind = CHECK_EXPORT,
        .name = {m->remote, m->remote_generation},
        .size = size,
        .identity = checked_identity(key),
    };

    checked_write(&record.r, sizeof(record));
}

int ipc_memory_export(const char *function, void *address, size_t size, char *key, size_t len,
                      uint64_t flags)
{
    struct export_name name;
    struct context *c;
    struct memory m;

    RETURN_IF_ERROR(check_export(function, size, len, flags));
    c = FIND_OR_RETURN(context_get, function);
    RETURN_IF_ERROR(memory_find_own(c->session, function, address, size, &m));
    RETURN_IF_ERROR(export_memory(c->session, function, m.remote, size, flags != 0, false, &name));
    if (checked_runs())
        note_export(&m, size, name.key);
    memcpy(key, name.key, EXPORT_KEY_SIZE);
    return 0;
}

aclError aclrtIpcMemGetExportKey(void *devPtr, size_t size, char *key, size_t len, uint64_t flags)
{
    CALL_SCOPE;

    REQUIRE(devPtr);
    REQUIRE(key);
    return ipc_memory_export(__func__, devPtr, size, key, len, flags);
}

aclError aclrtIpcMemSetImportPid(const char *key, int32_t *pid, size_t num)
{
    CALL_SCOPE;
    struct export_name name;
    struct session *s;

    REQUIRE(key);
    REQUIRE(pid);
    if (num == 0 || num > INT32_MAX)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: num is %zu", __func__, num);
    s = FIND_OR_RETURN(session_get, __func__);
    export_name_of_key(&name, key);
    return export_allow(s, __func__, &name, pid, num);
}

/* Mapped, and in the table. in->fd is closed. */
static int begin_use(struct context *c, const char *function, const char *key,
                     const struct imported *in, void **pointer)
{
    struct memory *m = calloc(1, sizeof(*m));
    void *start;
    int error;

    if (!m) {
        if (in->fd >= 0)
            close(in->fd);
        return error_no_memory(function);
    }
    *m = (struct memory){.mapped = {in->address, in->size},
                         .size = in->exported,
                         .host = in->host,
                         .device = in->device,
                         .home = c->device,
                         .remote = in->remote,
                         .remote_generation = in->remote_generation,
                         .opaque = memory_is_opaque(c->session, in->host, in->device)};
    if (m->opaque)
        m->populated = UINT64_MAX;
    error = memory_map(c->session, function, m, in->fd);
    start = (void *)m->mapped.start;
    if (error == 0) {
        error = memory_add(c->session, function, m, key, m->host ? NULL : c);
        if (error != 0)
            memory_unmap(m);
    }
    if (error == 0)
        *pointer = start; /* m may be gone: another thread has closed it */
    else
        free(m);
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the table owns m */
    return error;
}

int ipc_memory_import(const char *function, void **pointer, const char *key, uint64_t flags)
{
    struct export_name name;
    struct imported in;
    struct context *c;
    int error;

    if (flags > ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS)
        return bad_flags(function, flags);
    c = FIND_OR_RETURN(context_get, function);
    export_name_of_key(&name, key);
    RETURN_IF_ERROR(export_import(c->session, function, &name, &in));
    error = begin_use(c, function, name.key, &in, pointer);
    if (error != 0)
        memory_free_remote(c->session, function, in.remote);
    else if (flags & ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS)
        context_enable_peer_device(c, in.device);
    return error;
}

aclError aclrtIpcMemImportByKey(void **devPtr, const char *key, uint64_t flags)
{
    CALL_SCOPE;

    REQUIRE(devPtr);
    REQUIRE(key);
    return ipc_memory_import(__func__, devPtr, key, flags);
}

int ipc_memory_close(const char *function, const char *key)
{
    struct export_name name;
    struct session *s;
    struct memory *m;

    s = FIND_OR_RETURN(session_get, function);
    export_name_of_key(&name, key);
    m = memory_take_import(s, name.key);
    if (m)
        return memory_drop(s, function, m);

    REQUEST(unexport_memory, UNEXPORT_MEMORY, .key = name.key);

    return session_command(s, function, &request);
}

aclError aclrtIpcMemClose(const char *key)
{
    CALL_SCOPE;

    REQUIRE(key);
    return ipc_memory_close(__func__, key);
}

aclError aclrtIpcMemSetAttr(const char *key, aclrtIpcMemAttrType type, uint64_t attr)
{
    CALL_SCOPE;

    if (!key || type != ACL_RT_IPC_MEM_ATTR_ACCESS_LINK || attr > 3)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: key is NULL, type is not 0, or attr is not 0 to 3", __func__);
    return error_set(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                     "%s: there is one path between the devices of a host, and none to choose",
                     __func__);
}

aclError aclrtIpcMemImportPidInterServer(const char *key, aclrtServerPid *serverPids, size_t num)
{
    CALL_SCOPE;

    if (!key || !serverPids || num == 0)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: an argument is NULL or 0", __func__);
    for (size_t i = 0; i < num; i++)
        if (!serverPids[i].pid || serverPids[i].num == 0)
            return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: entry %zu has no pids", __func__, i);
    return error_set(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                     "%s: these devices have no fabric to other servers", __func__);
}
