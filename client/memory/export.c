#include "client/memory/export.h"

#include <string.h>

#include "acl/acl.h"
#include "client/core/error.h"
#include "client/runtime/session.h"
#include "proto/wire/packet.h"

#define PIDS_MAX 256u /* that npud keeps for one export */

void export_name_of_key(struct export_name *name, const char *key)
{
    *name = (struct export_name){.number = 0};
    /*
     * One more than a key has is enough to see that it is none. What is no ASCII cannot be in a
     * message. The empty text would be no name.
     */
    for (size_t i = 0; i < EXPORT_KEY_SIZE && key[i]; i++)
        name->key[i] = key[i] & (char)0x80 ? '?' : key[i];
    if (!key[0])
        name->key[0] = '?';
}

int export_memory(struct session *s, const char *function, uint32_t slot, uint64_t size,
                  bool any_pid, bool by_number, struct export_name *name)
{
    REQUEST(export_memory, EXPORT_MEMORY, .slot = slot, .size = size, .any_pid = any_pid,
            .by_number = by_number);
    Npud__Reply *reply = NULL;

    RETURN_IF_ERROR(session_request(s, function, &request, &reply, NULL));
    *name = (struct export_name){.number = reply->export_memory->number};
    strncpy(name->key, reply->export_memory->key, EXPORT_KEY_SIZE - 1);
    session_reply_free(reply);
    return 0;
}

int export_allow(struct session *s, const char *function, const struct export_name *name,
                 const int32_t *pids, size_t n)
{
    if (n > PIDS_MAX)
        return error_set(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
                         "%s: %zu pids: a list of importers has at most %u processes", function, n,
                         PIDS_MAX);
    /* Before the first request: if one is refused, none should have had an effect. */
    for (size_t i = 0; i < n; i++)
        if (pids[i] <= 0)
            return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: a pid is not positive: %d", function,
                             (int)pids[i]);
    for (size_t i = 0; i < n; i += NOTIFY_PIDS_REQUEST) {
        size_t most = n - i < NOTIFY_PIDS_REQUEST ? n - i : NOTIFY_PIDS_REQUEST;

        REQUEST(allow_memory, ALLOW_MEMORY, .key = (char *)name->key, .number = name->number,
                .pids = (int32_t *)pids + i, .n_pids = most);
        RETURN_IF_ERROR(session_command(s, function, &request));
    }
    return 0;
}

int export_import(struct session *s, const char *function, const struct export_name *name,
                  struct imported *imported)
{
    Npud__Reply *reply = NULL;
    int fd = -1;

    REQUEST(import_memory, IMPORT_MEMORY, .key = (char *)name->key, .number = name->number);
    RETURN_IF_ERROR(session_request(s, function, &request, &reply, &fd));
    *imported = (struct imported){
        .remote = reply->import_memory->slot,
        .remote_generation = reply->import_memory->generation,
        .size = reply->import_memory->size,
        .exported = reply->import_memory->exported,
        .address = reply->import_memory->address,
        .device = reply->import_memory->device,
        .host = reply->import_memory->host,
        .fd = fd,
    };
    session_reply_free(reply);
    return 0;
}
