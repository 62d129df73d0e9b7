#include "client/python/view.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "acl/acl.h"
#include "acl/acl_tdt_queue.h"
#include "proto/util/lift_fd.h"

#define PAGE 4096u

/* What a memoryview is made of. Nothing but memoryviews refers to it. */
struct view {
    PyObject ob_base;
    struct view *next, **back; /* in views */
    uintptr_t start;
    uint64_t size;
    bool device; /* goes with its device */
    bool writable;
};

static struct view *views; /* all, guarded by the GIL */
static PyTypeObject *view_type;

/* --- what the memory is --- */

enum reach { UNREADABLE, READABLE, WRITABLE };

/* One line of maps covers addresses from `at` on: to where, and what is allowed there. */
static enum reach maps_line(const char *line, uintptr_t at, uintptr_t *end)
{
    uintptr_t from, to;
    char rights[5];

    if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &from, &to, rights) != 3 || at < from ||
        at >= to || rights[0] != 'r')
        return UNREADABLE;
    *end = to;
    return rights[1] == 'w' ? WRITABLE : READABLE;
}

/*
 * Of a strict device nothing is mapped: to ask the kernel is the one way that also knows of other
 * mappings without access.
 */
static enum reach memory_reach(uintptr_t start, uint64_t size)
{
    enum reach all = WRITABLE, here;
    uintptr_t at = start, end = 0;
    char line[4352]; /* a path at most */
    FILE *maps = lift_open("/proc/self/maps");

    if (!maps)
        return UNREADABLE;
    while (at - start < size && fgets(line, sizeof(line), maps)) {
        here = maps_line(line, at, &end);
        if (here == UNREADABLE)
            continue;
        all = here < all ? here : all;
        at = end;
    }
    fclose(maps);
    return at - start >= size ? all : UNREADABLE;
}

/*
 * Up to where memory of the library goes on from `at`; 0: it is none. Of host memory only the page
 * is looked at, since it may be registered, or a shared buffer: aclrtMemGetAddressRange() knows
 * neither, and leaves an error text.
 */
static uintptr_t known_until(uintptr_t at, bool *device)
{
    aclrtPtrAttributes a;

    if (aclrtPointerGetAttributes((void *)at, &a) != ACL_SUCCESS ||
        a.location.type == ACL_MEM_LOCATION_TYPE_UNREGISTERED)
        return 0;
    if (a.location.type == ACL_MEM_LOCATION_TYPE_HOST)
        return (at | (PAGE - 1)) + 1;
    *device = true;
    return at + view_allocation_size((void *)at);
}

static bool memory_is_known(uintptr_t start, uint64_t size, bool *device)
{
    uintptr_t at = start, end;

    for (; at - start < size; at = end) {
        end = known_until(at, device);
        if (end <= at)
            return false;
    }
    return known_until(start + size - 1, device) != 0; /* buffers may end within a page */
}

static bool view_check(struct view *v)
{
    enum reach reach = UNREADABLE;
    const char *wrong = NULL;
    bool device = false;

    Py_BEGIN_ALLOW_THREADS;
    if (v->size == 0 || v->size > PY_SSIZE_T_MAX || v->start + v->size < v->start ||
        !memory_is_known(v->start, v->size, &device))
        wrong = "is not memory of this library, or was freed: take it from what allocated, "
                "imported or registered it";
    else if ((reach = memory_reach(v->start, v->size)) == UNREADABLE)
        wrong = "cannot be read by this process (its device is strict, or it is mapped without "
                "access): copy it to host memory with acl.rt.memcpy";
    Py_END_ALLOW_THREADS;
    v->device = device;
    v->writable = reach == WRITABLE;
    if (wrong)
        PyErr_Format(PyExc_ValueError, "acl.npud.view: %llu bytes at %p: this range %s",
                     (unsigned long long)v->size, (void *)v->start, wrong);
    return !wrong;
}

/* --- the object --- */

static void view_dealloc(PyObject *self)
{
    struct view *v = (struct view *)self;
    PyTypeObject *type = Py_TYPE(self);

    if (v->back) {
        *v->back = v->next;
        if (v->next)
            v->next->back = v->back;
    }
    type->tp_free(self);
    Py_DECREF(type);
}

static int view_getbuffer(PyObject *self, Py_buffer *buffer, int flags)
{
    struct view *v = (struct view *)self;

    return PyBuffer_FillInfo(buffer, self, (void *)v->start, (Py_ssize_t)v->size, !v->writable,
                             flags);
}

static PyType_Slot view_slots[] = {
    {Py_tp_dealloc, view_dealloc},
    {Py_bf_getbuffer, view_getbuffer},
    {Py_tp_doc, (void *)"Memory of the library: what memoryviews of acl.npud.view are over."},
    {0, NULL},
};

static PyType_Spec view_spec = {
    .name = "acl.npud._View",
    .basicsize = sizeof(struct view),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = view_slots,
};

int view_init(void)
{
    view_type = (PyTypeObject *)PyType_FromSpec(&view_spec);
    return view_type ? 0 : -1;
}

static PyObject *view_new(void *address, uint64_t size)
{
    struct view *v = (struct view *)view_type->tp_alloc(view_type, 0);

    if (!v)
        return NULL;
    v->start = (uintptr_t)address;
    v->size = size;
    /* Before the check, which lets other threads run: they may be about to free the memory. */
    v->device = true;
    v->next = views;
    v->back = &views;
    if (views)
        views->back = &v->next;
    views = v;
    if (!view_check(v))
        Py_CLEAR(v);
    return (PyObject *)v;
}

PyObject *view_memory(void *address, uint64_t size)
{
    PyObject *view = view_new(address, size);
    PyObject *memory = view ? PyMemoryView_FromObject(view) : NULL;

    Py_XDECREF(view);
    return memory;
}

int view_fill(void *address, uint64_t size, Py_buffer *buffer, int flags)
{
    PyObject *view = view_new(address, size);
    int error = view ? PyObject_GetBuffer(view, buffer, flags) : -1;

    if (error < 0)
        buffer->obj = NULL;
    Py_XDECREF(view);
    return error;
}

/* --- what ends memory --- */

uint64_t view_buffer_range(void *buf, void **address)
{
    size_t size = 0;

    return buf && acltdtGetBufData(buf, address, &size) == ACL_SUCCESS ? size : 0;
}

uint64_t view_allocation_size(void *address)
{
    size_t size = 0;
    void *base;

    if (!address || aclrtMemGetAddressRange(address, &base, &size) != ACL_SUCCESS)
        return 0;
    return (uintptr_t)base + size - (uintptr_t)address;
}

static bool range_is_viewed(void *start, uint64_t size)
{
    uintptr_t from = (uintptr_t)start;

    for (struct view *v = views; v; v = v->next)
        if (v->start < from + size && from < v->start + v->size)
            return true;
    return false;
}

/* A chain goes as a whole. */
static bool buffer_is_viewed(void *head)
{
    uint32_t n = 0;
    void *buf, *start;
    uint64_t size;

    if (!head || acltdtGetBufChainNum(head, &n) != ACL_SUCCESS)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        if (acltdtGetBufFromChain(head, i, &buf) != ACL_SUCCESS)
            continue;
        size = view_buffer_range(buf, &start);
        if (size > 0 && range_is_viewed(start, size))
            return true;
    }
    return false;
}

static bool device_is_viewed(void)
{
    for (struct view *v = views; v; v = v->next)
        if (v->device)
            return true;
    return false;
}

bool view_refuses(const struct row *row, void *argument)
{
    bool viewed = views && ((row->flags & ENDS_ALL) != 0 ||
                            ((row->flags & ENDS_DEVICE) != 0 && device_is_viewed()) ||
                            ((row->flags & ENDS_BUFFER) != 0 && buffer_is_viewed(argument)) ||
                            ((row->flags & ENDS_MEMORY) != 0 &&
                             range_is_viewed(argument, view_allocation_size(argument))));

    if (viewed)
        PyErr_Format(PyExc_BufferError,
                     "%s: there are views of memory that this call would end: release the "
                     "memoryviews and arrays over it first",
                     row->name);
    return viewed;
}
