/* Requests about memory that several processes have. */
#include "daemon/core/call.h"

#include "daemon/core/device.h"
#include "daemon/core/refuse.h"
#include "daemon/core/session.h"
#include "daemon/memory/allocation.h"
#include "daemon/memory/share.h"

/* The empty key is none. */
static struct share_name name_of(const char *key, uint64_t number)
{
    return (struct share_name){.key = key[0] ? key : NULL, .number = number};
}

int32_t on_export_memory(struct call *call)
{
    const Npud__ExportMemory *in = call->request->export_memory;
    Npud__ExportMemoryReply *out;
    struct share *share;
    enum cause cause = share_new(call->of.mem, in->size, in->any_pid, in->by_number, &share);

    if (cause != CAUSE_NONE)
        return refuse(call, cause, "the memory is not exported");
    out = CALL_REPLY(call, export_memory, EXPORT_MEMORY);
    if (in->by_number)
        out->number = share->number;
    else
        out->key = call_key(call, &share->key);
    return 0;
}

int32_t on_allow_memory(struct call *call)
{
    const Npud__AllowMemory *in = call->request->allow_memory;
    struct share *share;
    enum cause cause = share_find_own(call->session, name_of(in->key, in->number), &share);

    if (cause == CAUSE_NONE)
        cause = share_allow(share, in->pids, in->n_pids);
    return refuse(call, cause, "the list of importers of the memory is not changed");
}

int32_t on_unexport_memory(struct call *call)
{
    const Npud__UnexportMemory *in = call->request->unexport_memory;
    struct share *share;
    enum cause cause = share_find_own(call->session, name_of(in->key, in->number), &share);

    if (cause == CAUSE_NONE)
        share_free(share);
    return refuse(call, cause, "the memory cannot be closed");
}

int32_t on_import_memory(struct call *call)
{
    const Npud__ImportMemory *in = call->request->import_memory;
    Npud__ImportMemoryReply *out;
    struct mem *mem;
    enum cause cause = share_import(call->session, name_of(in->key, in->number), &mem);

    if (cause != CAUSE_NONE)
        return refuse(call, cause, "process %d of user %u cannot import the memory",
                      (int)call->session->pid, (unsigned)call->session->uid);
    call->fd = allocation_file(mem);
    out = CALL_REPLY(call, import_memory, IMPORT_MEMORY);
    out->slot = mem->slot.number;
    out->generation = slot_generation(mem);
    out->size = mem->pages->size;
    out->exported = mem->imported;
    out->device = mem->pages->device->index;
    out->host = mem->pages->kind == MEM_HOST;
    out->pid = mem->pages->maker_pid;
    return 0;
}

int32_t on_fetch_memory(struct call *call)
{
    const struct pages *pages = call->of.mem->pages;

    if (call->request->fetch_memory->size > pages->size)
        return refuse(call, CAUSE_ALLOCATION_RANGE, "bytes to map");
    call->fd = allocation_file(call->of.mem);
    return 0;
}
