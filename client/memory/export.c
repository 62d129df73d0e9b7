#include "client/memory/export.h"

#include <string.h>

#include "acl/acl.h"
#include "client/core/error.h"
#include "client/runtime/importer_pids.h"
#include "client/runtime/session.h"

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

struct listing {
    struct session *session;
    const char *function;
    const struct export_name *name;
};

static int send_pids(void *context, int32_t *pids, size_t n)
{
    const struct listing *l = context;
    REQUEST(allow_memory, ALLOW_MEMORY, .key = (char *)l->name->key, .number = l->name->number,
            .pids = pids, .n_pids = n);

    return session_command(l->session, l->function, &request);
}

int export_allow(struct session *s, const char *function, const struct export_name *name,
                 const int32_t *pids, size_t n)
{
    struct listing l = {s, function, name};

    return importer_pids_send(function, pids, n, send_pids, &l);
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
