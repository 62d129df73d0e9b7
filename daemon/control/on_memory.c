/* Requests about memory. */
#include "daemon/core/call.h"

#include "daemon/core/device.h"
#include "daemon/core/engine.h"
#include "daemon/core/refuse.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/engine/value.h"
#include "daemon/memory/allocation.h"
#include "daemon/memory/export.h"

int32_t on_malloc(struct call *call)
{
    const Npud__Malloc *in = call->request->malloc;
    Npud__MallocReply *out;
    struct mem *mem;
    struct device *device = call->of.attach->device;
    bool host = in->kind == NPUD__MALLOC__KIND__HOST;
    enum cause cause =
        allocation_new(call->session, device, host ? MEM_HOST : MEM_DEVICE, in->size, &mem);

    if (cause != CAUSE_NONE && host)
        return refuse(call, cause, "no pinned host memory of %llu bytes",
                      (unsigned long long)in->size);
    if (cause != CAUSE_NONE)
        return refuse(call, cause, "no memory of %llu bytes on device %u, which has %llu free",
                      (unsigned long long)in->size, in->device,
                      (unsigned long long)pages_device_remaining(call->session->user, device));
    call->fd = allocation_file(mem);
    out = CALL_REPLY(call, malloc, MALLOC);
    out->slot = mem->slot.number;
    out->generation = slot_generation(mem);
    out->size = mem->pages->size;
    out->address = mem->address;
    return 0;
}

int32_t on_free(struct call *call)
{
    allocation_free(call->of.mem);
    return 0;
}

int32_t on_memory_written(struct call *call)
{
    const Npud__MemoryWritten *in = call->request->memory_written;
    struct mem *mem = allocation_get(call->session, in->slot, in->generation);

    if (!mem)
        return 0;
    if (in->offset > mem->pages->size || in->size > mem->pages->size - in->offset)
        return refuse(call, CAUSE_ALLOCATION_RANGE, "bytes that were written");
    value_written(mem, in->offset, in->size);
    pages_tell_idle(mem->pages);
    return 0;
}

int32_t on_mem_info(struct call *call)
{
    uint32_t index = call->request->mem_info->device;
    struct device *device = devices_get(call->session->server->devices, index);
    Npud__MemInfoReply *out;

    if (!device)
        return refuse(call, CAUSE_DEVICE_NONE, "device %u", index);
    out = CALL_REPLY(call, mem_info, MEM_INFO);
    out->total = device->info.memory;
    out->free = pages_obtainable(call->session, device);
    if (call->request->mem_info->usage)
        out->busy = engine_busy_percent(device->engine) + 1;
    return 0;
}

/* --- memory that several processes have --- */

/* The empty key is none. */
static struct export_name name_of(const char *key, uint64_t number)
{
    return (struct export_name){.key = key[0] ? key : NULL, .number = number};
}

int32_t on_export_memory(struct call *call)
{
    const Npud__ExportMemory *in = call->request->export_memory;
    Npud__ExportMemoryReply *out;
    struct memory_export *export;
    enum cause cause =
        memory_export_new(call->of.mem, in->size, in->any_pid, in->by_number, &export);

    if (cause != CAUSE_NONE)
        return refuse(call, cause, "the memory is not exported");
    out = CALL_REPLY(call, export_memory, EXPORT_MEMORY);
    if (in->by_number)
        out->number = export->number;
    else
        out->key = call_key(call, &export->key);
    return 0;
}

int32_t on_allow_memory(struct call *call)
{
    const Npud__AllowMemory *in = call->request->allow_memory;
    struct memory_export *export;
    enum cause cause = memory_export_find_own(call->session, name_of(in->key, in->number), &export);

    if (cause == CAUSE_NONE)
        cause = memory_export_allow(export, in->pids, in->n_pids);
    return refuse(call, cause, "the list of importers of the memory is not changed");
}

int32_t on_unexport_memory(struct call *call)
{
    const Npud__UnexportMemory *in = call->request->unexport_memory;
    struct memory_export *export;
    enum cause cause = memory_export_find_own(call->session, name_of(in->key, in->number), &export);

    if (cause == CAUSE_NONE) {
        pages_expect(export->mem->pages);
        memory_export_free(export);
    }
    return refuse(call, cause, "the memory cannot be closed");
}

int32_t on_import_memory(struct call *call)
{
    const Npud__ImportMemory *in = call->request->import_memory;
    Npud__ImportMemoryReply *out;
    struct mem *mem;
    enum cause cause = memory_export_import(call->session, name_of(in->key, in->number), &mem);

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
    out->address = mem->address;
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
