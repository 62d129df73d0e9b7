/*
 * Variables of kernels, by symbol: the address of a variable with __gm__ in a source that was
 * compiled by the toolkit tree. The variable is memory of the process, which kernels use where it
 * is; so its device address is its own, and copies are those of registered memory
 * (client/memory/host_task.h).
 */
#include "acl/acl.h"
#include "client/core/error.h"
#include "client/kernel/kernel.h"
#include "client/memory/copy.h"
#include "client/runtime/context.h"
#include "client/runtime/stream.h"

static int find_symbol(const char *function, const void *symbol, aclnpudVariable *variable)
{
    if (kernel_registry_find_variable(NULL, NULL, symbol, variable))
        return 0;
    return error_set(ACL_ERROR_RT_SYMBOL_NOT_FOUND,
                     "%s: %p is the address of no variable of kernels: give the address of a "
                     "variable with __gm__, outside of functions, in a source that bisheng or "
                     "ascendc_library() has compiled",
                     function, symbol);
}

aclError aclrtGetSymbolAddress(const void *symbol, void **devPtr)
{
    CALL_SCOPE;
    aclnpudVariable v;

    REQUIRE(symbol);
    REQUIRE(devPtr);
    FIND_OR_RETURN(context_get, __func__);
    RETURN_IF_ERROR(find_symbol(__func__, symbol, &v));
    *devPtr = v.address;
    return 0;
}

aclError aclrtGetSymbolSize(const void *symbol, size_t *size)
{
    CALL_SCOPE;
    aclnpudVariable v;

    REQUIRE(symbol);
    REQUIRE(size);
    FIND_OR_RETURN(context_get, __func__);
    RETURN_IF_ERROR(find_symbol(__func__, symbol, &v));
    *size = v.bytes;
    return 0;
}

/* --- copies --- */

/* A copy of a program: of these, `other` is not the variable. */
struct symbol_copy {
    const char *function;
    bool to_symbol;
    const void *symbol;
    void *other;
    size_t max; /* room at `other` */
    size_t count, offset;
    aclrtMemcpyKind kind;
};

/* 0: there is nothing to copy; -1: there is; else an ACL error. */
static int check_copy(const struct symbol_copy *c)
{
    aclrtMemcpyKind host = c->to_symbol ? ACL_MEMCPY_HOST_TO_DEVICE : ACL_MEMCPY_DEVICE_TO_HOST;

    if (c->count == 0)
        return 0;
    if (!c->symbol || !c->other)
        return error_null(c->function, !c->symbol ? "symbol" : c->to_symbol ? "src" : "dst");
    if (c->kind != host && c->kind != ACL_MEMCPY_DEVICE_TO_DEVICE && c->kind != ACL_MEMCPY_DEFAULT)
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: kind is %d, must be %d, %d or %d here",
                         c->function, (int)c->kind, (int)host, ACL_MEMCPY_DEVICE_TO_DEVICE,
                         ACL_MEMCPY_DEFAULT);
    if (c->count > c->max)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: count %zu is more than dstMax %zu",
                         c->function, c->count, c->max);
    return -1;
}

/* Where in the variable the copy is. */
static int find_bytes(const struct symbol_copy *c, char **bytes)
{
    aclnpudVariable v;

    RETURN_IF_ERROR(find_symbol(c->function, c->symbol, &v));
    if (c->offset > v.bytes || c->count > v.bytes - c->offset)
        return error_set(ACL_ERROR_INVALID_PARAM,
                         "%s: %zu bytes at offset %zu leave the variable %s of %zu bytes",
                         c->function, c->count, c->offset, v.name, v.bytes);
    if (c->to_symbol && v.readOnly)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: the variable %s is const, and kernels may have its value without "
                         "reading it: leave out const to write it",
                         c->function, v.name);
    *bytes = (char *)v.address + c->offset;
    return 0;
}

static int copy_here(const struct symbol_copy *c)
{
    int error = check_copy(c);
    struct context *context;
    char *bytes;

    if (error >= 0)
        return error;
    context = FIND_OR_RETURN(context_get, c->function);
    RETURN_IF_ERROR(find_bytes(c, &bytes));
    return copy_blocking(context, c->function, c->to_symbol ? bytes : c->other,
                         c->to_symbol ? c->other : bytes, c->count);
}

static int copy_on(const struct symbol_copy *c, struct stream *s)
{
    aclrtMemcpyKind kind = c->kind;
    char *bytes;

    RETURN_IF_ERROR(find_bytes(c, &bytes));
    /* The variable is of the device, whatever its address looks like. */
    if (kind == ACL_MEMCPY_DEFAULT)
        kind = c->to_symbol ? ACL_MEMCPY_HOST_TO_DEVICE : ACL_MEMCPY_DEVICE_TO_HOST;
    return copy_async(s, c->function, c->to_symbol ? bytes : c->other,
                      c->to_symbol ? c->other : bytes, c->count, kind);
}

static int copy_in_stream(const struct symbol_copy *c, aclrtStream stream)
{
    int error = check_copy(c);
    struct stream *s;

    if (error >= 0)
        return error;
    s = FIND_OR_RETURN(stream_lock, c->function, stream);
    error = copy_on(c, s);
    stream_unlock(s);
    return error;
}

static struct symbol_copy copy_from(const char *function, void *dst, size_t max, const void *symbol,
                                    size_t count, size_t offset, aclrtMemcpyKind kind)
{
    return (struct symbol_copy){function, false, symbol, dst, max, count, offset, kind};
}

static struct symbol_copy copy_to(const char *function, const void *symbol, const void *src,
                                  size_t count, size_t offset, aclrtMemcpyKind kind)
{
    return (struct symbol_copy){function, true,  symbol, (void *)(uintptr_t)src,
                                SIZE_MAX, count, offset, kind};
}

aclError aclrtMemcpyFromSymbol(void *dst, size_t dstMax, const void *symbol, size_t count,
                               size_t offset, aclrtMemcpyKind kind)
{
    CALL_SCOPE;
    struct symbol_copy c = copy_from(__func__, dst, dstMax, symbol, count, offset, kind);

    return copy_here(&c);
}

aclError aclrtMemcpyFromSymbolAsync(void *dst, size_t dstMax, const void *symbol, size_t count,
                                    size_t offset, aclrtMemcpyKind kind, aclrtStream stream)
{
    CALL_SCOPE;
    struct symbol_copy c = copy_from(__func__, dst, dstMax, symbol, count, offset, kind);

    return copy_in_stream(&c, stream);
}

aclError aclrtMemcpyToSymbol(const void *symbol, const void *src, size_t count, size_t offset,
                             aclrtMemcpyKind kind)
{
    CALL_SCOPE;
    struct symbol_copy c = copy_to(__func__, symbol, src, count, offset, kind);

    return copy_here(&c);
}

aclError aclrtMemcpyToSymbolAsync(const void *symbol, const void *src, size_t count, size_t offset,
                                  aclrtMemcpyKind kind, aclrtStream stream)
{
    CALL_SCOPE;
    struct symbol_copy c = copy_to(__func__, symbol, src, count, offset, kind);

    return copy_in_stream(&c, stream);
}
