#include "daemon/executor/executor_object.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "acl/error_codes/rt_error_codes.h"
#include "daemon/executor/library.h"

static struct slot {
    struct object *object; /* NULL: free */
    uint32_t number;       /* the high half of its handle */
} slots[EXECUTOR_HANDLES];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* --- making and freeing --- */

struct object *object_new(enum object_kind kind, uint32_t device)
{
    struct object *object = calloc(1, sizeof(*object));

    if (!object) {
        vendor_set_text("out of memory on the host");
        return NULL;
    }
    object->kind = kind;
    object->device = device;
    return object;
}

/* Outside the lock: the library may take its time. What a device had is gone when it has ended. */
static void free_object(struct object *object)
{
    const struct vendor *vendor = library.vendor;

    switch (object->kind) {
    case OBJECT_MEMORY:
        if (library_enter_to_free(object->device))
            vendor->memory_free(library.open, &object->memory);
        break;
    case OBJECT_PAGES:
        host_pages_unmap(&object->pages);
        break;
    case OBJECT_BINARY:
        if (vendor->binary_free && library_enter_to_free(object->device))
            vendor->binary_free(library.open, object->binary);
        free(object->functions);
        break;
    }
    free(object);
}

void object_leave(struct object *object)
{
    bool last;

    if (!object)
        return;
    pthread_mutex_lock(&lock);
    last = --object->users == 0;
    pthread_mutex_unlock(&lock);
    if (last)
        free_object(object);
}

/* --- the table --- */

/* Under the lock. NULL: the handle means nothing. */
static struct slot *find(uint64_t handle)
{
    uint32_t number = (uint32_t)(handle >> 32);
    struct slot *slot = &slots[(uint32_t)handle % EXECUTOR_HANDLES];

    return (uint32_t)handle < EXECUTOR_HANDLES && slot->object && slot->number == number ? slot
                                                                                         : NULL;
}

int32_t object_add(uint64_t handle, struct object *object)
{
    struct slot *slot = &slots[(uint32_t)handle % EXECUTOR_HANDLES];
    uint32_t number = (uint32_t)(handle >> 32);
    struct object *before;
    bool is_free;

    if ((uint32_t)handle >= EXECUTOR_HANDLES || handle >> 32 == 0)
        return library_refuses("a handle that cannot be");
    pthread_mutex_lock(&lock);
    before = slot->object;
    is_free = !before || slot->number != number;
    if (is_free) {
        object->users = 1;
        *slot = (struct slot){object, number};
    }
    pthread_mutex_unlock(&lock);
    if (is_free)
        object_leave(before);
    return is_free ? 0 : library_refuses("a handle that is in use");
}

void object_drop(uint64_t handle)
{
    struct object *object = NULL;
    struct slot *slot;

    pthread_mutex_lock(&lock);
    slot = find(handle);
    if (slot) {
        object = slot->object;
        slot->object = NULL;
    }
    pthread_mutex_unlock(&lock);
    object_leave(object);
}

void object_drop_all(uint32_t device)
{
    for (uint32_t i = 0; i < EXECUTOR_HANDLES; i++) {
        const struct object *object = slots[i].object; /* this thread alone changes it */

        if (object && object->kind != OBJECT_PAGES && object->device == device)
            object_drop((uint64_t)slots[i].number << 32 | i);
    }
}

static struct object *use(uint64_t handle, unsigned kinds)
{
    struct object *object = NULL;
    const struct slot *slot;

    pthread_mutex_lock(&lock);
    slot = find(handle);
    if (slot && (kinds & 1u << slot->object->kind)) {
        object = slot->object;
        object->users++;
    }
    pthread_mutex_unlock(&lock);
    if (!object)
        vendor_set_text("handle %#llx is of nothing that can be used so",
                        (unsigned long long)handle);
    return object;
}

struct object *object_use(uint64_t handle, enum object_kind kind)
{
    return use(handle, 1u << kind);
}

struct object *object_use_bytes(uint64_t handle)
{
    return use(handle, 1u << OBJECT_MEMORY | 1u << OBJECT_PAGES);
}

uint64_t object_size(const struct object *object)
{
    return object->kind == OBJECT_PAGES ? object->pages.size : object->memory.size;
}

uint32_t object_list(uint32_t *at, uint64_t *handles, uint32_t max)
{
    uint32_t n = 0;

    for (; *at < EXECUTOR_HANDLES && n < max; ++*at)
        if (slots[*at].object)
            handles[n++] = (uint64_t)slots[*at].number << 32 | *at;
    return n;
}

/* --- functions --- */

/* Under the lock. Twice as many as before, at least. */
static bool make_room(struct object *binary, uint32_t number)
{
    uint32_t n = binary->n_functions * 2 > number + 1 ? binary->n_functions * 2 : number + 1;
    void **functions = reallocarray(binary->functions, n, sizeof(*functions));

    if (!functions)
        return false;
    memset(functions + binary->n_functions, 0, (n - binary->n_functions) * sizeof(*functions));
    binary->functions = functions;
    binary->n_functions = n;
    return true;
}

int32_t object_add_function(struct object *binary, uint32_t number, void *function)
{
    int32_t code = 0;

    if (number >= EXECUTOR_FUNCTIONS)
        return library_refuses("a number that no function can have");
    pthread_mutex_lock(&lock);
    if (number >= binary->n_functions && !make_room(binary, number))
        code = ACL_ERROR_RT_MEMORY_ALLOCATION;
    else if (binary->functions[number] && binary->functions[number] != function)
        code = ACL_ERROR_RT_PARAM_INVALID;
    else
        binary->functions[number] = function;
    pthread_mutex_unlock(&lock);
    if (code != 0)
        vendor_set_text("number %u is not free for a function", number);
    return code;
}

void *object_function(struct object *binary, uint64_t number)
{
    void *function;

    pthread_mutex_lock(&lock);
    function = number < binary->n_functions ? binary->functions[number] : NULL;
    pthread_mutex_unlock(&lock);
    return function;
}
