/*
 * Device memory between processes, by key: aclrtIpcMem*. npud keeps the exports, and the memory for
 * as long as any process has it; see also client/memory/export.h.
 */
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

static int check_export(size_t size, size_t len, uint64_t flags)
{
    const char *function = "aclrtIpcMemGetExportKey";

    if (size == 0)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: size is 0", function);
    if (len < EXPORT_KEY_SIZE)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: a key takes %d bytes, len is %zu",
                         function, EXPORT_KEY_SIZE, len);
    return flags > ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION ? bad_flags(function, flags)
                                                                     : 0;
}

aclError aclrtIpcMemGetExportKey(void *devPtr, size_t size, char *key, size_t len, uint64_t flags)
{
    CALL_SCOPE;
    struct export_name name;
    struct context *c;
    struct memory m;

    REQUIRE(devPtr);
    REQUIRE(key);
    RETURN_IF_ERROR(check_export(size, len, flags));
    c = FIND_OR_RETURN(context_get, __func__);
    RETURN_IF_ERROR(memory_share(c->session, __func__, devPtr, size, &m));
    RETURN_IF_ERROR(export_memory(c->session, __func__, m.remote, size, flags != 0, false, &name));
    memcpy(key, name.key, EXPORT_KEY_SIZE);
    return 0;
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
    char *copy = strdup(key);
    int error;

    if (!m || !copy) {
        free(m);
        free(copy);
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
                         .shared = true,
                         .opaque = memory_is_opaque(c->session, in->host, in->device),
                         .key = copy};
    if (m->opaque)
        m->populated = UINT64_MAX;
    error = memory_map(c->session, function, m, in->fd);
    if (error == 0 && !memory_add(c->session, m)) {
        memory_unmap(m);
        error = error_no_memory(function);
    }
    if (error == 0) {
        *pointer = (void *)m->mapped.start;
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the table owns m */
        return 0;
    }
    free(copy);
    free(m);
    return error;
}

aclError aclrtIpcMemImportByKey(void **devPtr, const char *key, uint64_t flags)
{
    CALL_SCOPE;
    struct export_name name;
    struct imported in;
    struct context *c;
    int error;

    REQUIRE(devPtr);
    REQUIRE(key);
    if (flags > ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS)
        return bad_flags(__func__, flags);
    c = FIND_OR_RETURN(context_get, __func__);
    export_name_of_key(&name, key);
    RETURN_IF_ERROR(export_import(c->session, __func__, &name, &in));
    atomic_store_explicit(&c->session->shares_memory, true, memory_order_relaxed);
    error = begin_use(c, __func__, name.key, &in, devPtr);
    if (error != 0)
        memory_free_remote(c->session, __func__, in.remote);
    else if (flags & ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS)
        context_enable_peer(c, in.device);
    return error;
}

aclError aclrtIpcMemClose(const char *key)
{
    CALL_SCOPE;
    struct export_name name;
    struct session *s;
    struct memory *m;

    REQUIRE(key);
    s = FIND_OR_RETURN(session_get, __func__);
    export_name_of_key(&name, key);
    m = memory_take_import(s, name.key);
    if (m)
        return memory_drop(s, __func__, m);

    REQUEST(unexport_memory, UNEXPORT_MEMORY, .key = name.key);

    return session_command(s, __func__, &request);
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
