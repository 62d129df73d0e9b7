#include "client/memory/device_area.h"

#include "acl/acl.h"
#include "client/core/error.h"
#include "client/memory/alloc.h"
#include "client/runtime/context.h"

/* The program may have freed it. */
static bool is_allocated(struct session *s, const void *address)
{
    struct memory m;

    return address && memory_look_up(s, address, &m) && !m.freed;
}

/* Under session->lock, where contexts end. */
static int obtain_area(struct context *c, const char *function, enum device_area area, size_t size,
                       void **address)
{
    void **place = &c->session->devices[c->device].areas[area];

    if (!context_is_current(c))
        return context_error_gone(function);
    if (!is_allocated(c->session, *place)) {
        const struct memory *m = FIND_OR_RETURN(memory_make, c, function, size, false, place);

        /* The program does not free it, and tasks of devices write there by themselves. */
        if (checked_runs())
            memory_note_gone(m);
    }
    *address = *place;
    return 0;
}

int device_area_get(const char *function, enum device_area area, size_t size, void **address)
{
    struct context *c = FIND_OR_RETURN(context_get, function);
    int error;

    pthread_mutex_lock(&c->session->lock);
    error = obtain_area(c, function, area, size, address);
    pthread_mutex_unlock(&c->session->lock);
    return error;
}

#define SYNC_SIZE 4096u

/* There are no cores that meet there: what a kernel would use is there, and is the program's. */
aclError aclrtGetHardwareSyncAddr(void **addr)
{
    CALL_SCOPE;

    REQUIRE_OR(ACL_ERROR_RT_PARAM_INVALID, addr);
    return device_area_get(__func__, DEVICE_AREA_SYNC, SYNC_SIZE, addr);
}
