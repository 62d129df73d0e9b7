/*
 * Variables of kernels, by symbol. A program gets symbols with the kernels that it loads, and there
 * are none here: so what is passed is checked, and no symbol is found.
 */
#include "acl/acl.h"
#include "client/core/error.h"
#include "client/runtime/context.h"
#include "client/runtime/stream.h"

static int symbol_not_found(const char *function, const void *symbol)
{
    return error_set(ACL_ERROR_RT_SYMBOL_NOT_FOUND,
                     "%s: no kernel with the symbol %p is loaded: simulated devices load none",
                     function, symbol);
}

static int find_symbol(const char *function, const void *symbol)
{
    FIND_OR_RETURN(context_get, function);
    return symbol_not_found(function, symbol);
}

aclError aclrtGetSymbolAddress(const void *symbol, void **devPtr)
{
    CALL_SCOPE;

    REQUIRE(symbol);
    REQUIRE(devPtr);
    return find_symbol(__func__, symbol);
}

aclError aclrtGetSymbolSize(const void *symbol, size_t *size)
{
    CALL_SCOPE;

    REQUIRE(symbol);
    REQUIRE(size);
    return find_symbol(__func__, symbol);
}

/* --- copies --- */

static int check_kind(const char *function, aclrtMemcpyKind kind, aclrtMemcpyKind host)
{
    if (kind == host || kind == ACL_MEMCPY_DEVICE_TO_DEVICE || kind == ACL_MEMCPY_DEFAULT)
        return 0;
    return error_set(ACL_ERROR_INVALID_PARAM, "%s: kind is %d, must be %d, %d or %d here", function,
                     (int)kind, (int)host, ACL_MEMCPY_DEVICE_TO_DEVICE, ACL_MEMCPY_DEFAULT);
}

/* 0: there is nothing to copy; -1: there is; else an ACL error. */
static int check_from(const char *function, const void *dst, size_t max, const void *symbol,
                      size_t count, aclrtMemcpyKind kind)
{
    if (count == 0)
        return 0;
    if (!dst || !symbol)
        return error_null(function, dst ? "symbol" : "dst");
    RETURN_IF_ERROR(check_kind(function, kind, ACL_MEMCPY_DEVICE_TO_HOST));
    if (count > max)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: count %zu is more than dstMax %zu",
                         function, count, max);
    return -1;
}

static int check_to(const char *function, const void *symbol, const void *src, size_t count,
                    aclrtMemcpyKind kind)
{
    if (count == 0)
        return 0;
    if (!symbol || !src)
        return error_null(function, symbol ? "src" : "symbol");
    RETURN_IF_ERROR(check_kind(function, kind, ACL_MEMCPY_HOST_TO_DEVICE));
    return -1;
}

static int find_on_stream(const char *function, const void *symbol, aclrtStream stream)
{
    struct stream *s = FIND_OR_RETURN(stream_lock, function, stream);

    stream_unlock(s);
    return symbol_not_found(function, symbol);
}

aclError aclrtMemcpyFromSymbol(void *dst, size_t dstMax, const void *symbol, size_t count,
                               size_t offset, aclrtMemcpyKind kind)
{
    CALL_SCOPE;
    int error = check_from(__func__, dst, dstMax, symbol, count, kind);

    (void)offset;
    return error >= 0 ? error : find_symbol(__func__, symbol);
}

aclError aclrtMemcpyFromSymbolAsync(void *dst, size_t dstMax, const void *symbol, size_t count,
                                    size_t offset, aclrtMemcpyKind kind, aclrtStream stream)
{
    CALL_SCOPE;
    int error = check_from(__func__, dst, dstMax, symbol, count, kind);

    (void)offset;
    return error >= 0 ? error : find_on_stream(__func__, symbol, stream);
}

aclError aclrtMemcpyToSymbol(const void *symbol, const void *src, size_t count, size_t offset,
                             aclrtMemcpyKind kind)
{
    CALL_SCOPE;
    int error = check_to(__func__, symbol, src, count, kind);

    (void)offset;
    return error >= 0 ? error : find_symbol(__func__, symbol);
}

aclError aclrtMemcpyToSymbolAsync(const void *symbol, const void *src, size_t count, size_t offset,
                                  aclrtMemcpyKind kind, aclrtStream stream)
{
    CALL_SCOPE;
    int error = check_to(__func__, symbol, src, count, kind);

    (void)offset;
    return error >= 0 ? error : find_on_stream(__func__, symbol, stream);
}
