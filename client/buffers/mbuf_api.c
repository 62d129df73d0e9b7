/*
 * The calls on shared buffers, in both families: acltdt, and the twins aclrt, which programs may
 * mix, as both have the same handles. They work on every machine: npud has no host and device
 * sides.
 */
#include "acl/acl.h"
#include "acl/acl_tdt_queue.h"
#include "client/core/error.h"
#include "client/buffers/mbuf.h"
#include "client/buffers/mbuf_cache.h"
#include "client/buffers/mbuf_chain.h"
#include "client/check/checked.h"
#include "client/core/process.h"
#include "client/runtime/session.h"

#define FAST(condition) __builtin_expect((condition), 1)
#define INLINE          inline __attribute__((always_inline))

/* The session at hand, which in a forked child is none, or NULL: then the long way tells why. */
static inline struct session *session_ready(void)
{
    struct session *s = session_peek();

    return FAST(s && !session_lost(s)) ? s : NULL;
}

static __attribute__((cold)) int no_session(const char *function, acltdtBuf buf)
{
    int error = process_enter();
    struct session *s = session_peek();

    if (error != 0)
        return error;
    if (s && session_lost(s))
        return session_error_lost(function);
    return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: %p is not a buffer of this process", function,
                     buf);
}

static INLINE int find_buffer(const char *function, acltdtBuf buf, struct session **s,
                              struct mbuf_ref *out)
{
    *s = session_ready();
    return FAST(*s != NULL) ? mbuf_check(function, *s, buf, out) : no_session(function, buf);
}

static INLINE int find_head(const char *function, acltdtBuf buf, struct session **s,
                            struct mbuf_ref *out)
{
    *s = session_ready();
    return FAST(*s != NULL) ? mbuf_check_head(function, *s, buf, out) : no_session(function, buf);
}

/*
 * Alloc and free of what the thread keeps, without a call and with everything in registers: hence
 * the long ways are functions of their own, which begin again.
 */
static INLINE int alloc_long(const char *function, size_t size, acltdtBuf *buf)
{
    CALL_SCOPE_OF(function);
    struct session *s;
    struct mbuf_ref m;

    if (!buf)
        return error_null(function, "buf");
    s = FIND_OR_RETURN(session_get, function);
    RETURN_IF_ERROR(mbuf_alloc(function, s, size, &m));
    if (checked_runs())
        checked_object(CHECK_OBJECT, CHECK_OBJECT_BUFFER, m.ref);
    *buf = mbuf_handle(m.word, m.ref);
    return 0;
}

static __attribute__((noinline)) int tdt_alloc_long(size_t size, acltdtBuf *buf)
{
    return alloc_long("acltdtAllocBuf", size, buf);
}

static __attribute__((noinline)) int rt_alloc_long(size_t size, acltdtBuf *buf)
{
    return alloc_long("aclrtAllocBuf", size, buf);
}

CHECKED_LONG_WAY(tdt_alloc_long, acltdtAllocBuf);
CHECKED_LONG_WAY(rt_alloc_long, aclrtAllocBuf);

static INLINE int alloc_buf(int (*long_way)(size_t size, acltdtBuf *buf), size_t size,
                            acltdtBuf *buf)
{
    struct api_call_mark *mark = api_call_mark_at_door();
    struct mbuf_ref m;
    acltdtBuf made;

    if (!FAST(buf && api_call_try(mark)))
        return long_way(size, buf);
    made = mbuf_cache_take(size, &m);
    api_call_end(mark);
    if (!FAST(made != NULL))
        return long_way(size, buf);
    *buf = made;
    return 0;
}

static INLINE int free_long(const char *function, acltdtBuf buf)
{
    CALL_SCOPE_OF(function);
    struct session *s;
    struct mbuf_ref m = {0};

    if (!buf)
        return error_null(function, "buf");
    RETURN_IF_ERROR(find_head(function, buf, &s, &m));
    if (checked_runs())
        checked_object(CHECK_OBJECT_GONE, CHECK_OBJECT_BUFFER, m.ref);
    mbuf_free(s, &m);
    return 0;
}

static __attribute__((noinline)) int tdt_free_long(acltdtBuf buf)
{
    return free_long("acltdtFreeBuf", buf);
}

static __attribute__((noinline)) int rt_free_long(acltdtBuf buf)
{
    return free_long("aclrtFreeBuf", buf);
}

CHECKED_LONG_WAY(tdt_free_long, acltdtFreeBuf);
CHECKED_LONG_WAY(rt_free_long, aclrtFreeBuf);

static INLINE int free_buf(int (*long_way)(acltdtBuf buf), acltdtBuf buf)
{
    struct api_call_mark *mark = api_call_mark_at_door();
    bool done;

    if (!FAST(api_call_try(mark)))
        return long_way(buf);
    done = mbuf_cache_free(buf);
    api_call_end(mark);
    return FAST(done) ? 0 : long_way(buf);
}

static int error_damaged(const char *function, acltdtBuf buf)
{
    return error_set(ACL_ERROR_RT_DRV_INTERNAL_ERROR,
                     "%s: buffer %p is damaged: a process that shares it has written into its head",
                     function, buf);
}

static int get_data(const char *function, acltdtBuf buf, void **where, size_t *size)
{
    struct session *s;
    struct mbuf_ref m;
    unsigned char *data;
    uint64_t room;

    if (!buf || !where || !size)
        return error_null(function, !buf ? "buf" : !where ? "dataPtr" : "size");
    RETURN_IF_ERROR(find_buffer(function, buf, &s, &m));
    if (!mbuf_data(&m, &data, &room))
        return error_damaged(function, buf);
    *where = data;
    *size = room;
    return 0;
}

static int set_length(const char *function, acltdtBuf buf, size_t len)
{
    struct session *s;
    struct mbuf_ref m;
    unsigned char *data;
    uint64_t room;

    if (!buf)
        return error_null(function, "buf");
    RETURN_IF_ERROR(find_buffer(function, buf, &s, &m));
    if (!mbuf_data(&m, &data, &room))
        return error_damaged(function, buf);
    if (len == 0)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: len is 0, must be from 1 to %llu, the room of the buffer", function,
                         (unsigned long long)room);
    if (len > room)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: len %zu is more than the %llu bytes that the buffer has room for",
                         function, len, (unsigned long long)room);
    atomic_store_explicit(&m.mbuf->length, len, memory_order_relaxed);
    return 0;
}

static int get_length(const char *function, acltdtBuf buf, size_t *len)
{
    struct session *s;
    struct mbuf_ref m;
    unsigned char *data;
    uint64_t room, length;

    if (!buf || !len)
        return error_null(function, buf ? "len" : "buf");
    RETURN_IF_ERROR(find_buffer(function, buf, &s, &m));
    if (!mbuf_data(&m, &data, &room))
        return error_damaged(function, buf);
    length = atomic_load_explicit(&m.mbuf->length, memory_order_relaxed);
    /* A peer may have written it: a program that reads so much stays within the buffer. */
    *len = length < room ? length : room;
    return 0;
}

/* What both directions check, in the reference's order. */
static int find_user(const char *function, acltdtBuf buf, const void *data, size_t size,
                     size_t offset, struct mbuf_ref *m)
{
    struct session *s;

    if (size > MBUF_USER || offset > MBUF_USER - size)
        return error_set(ACL_ERROR_INVALID_PARAM,
                         "%s: %zu bytes at offset %zu go beyond the %u bytes of user data",
                         function, size, offset, MBUF_USER);
    if (!buf || !data)
        return error_null(function, buf ? "dataPtr" : "buf");
    return find_buffer(function, buf, &s, m);
}

static int set_user(const char *function, acltdtBuf buf, const void *data, size_t size,
                    size_t offset)
{
    struct mbuf_ref m = {0};

    RETURN_IF_ERROR(find_user(function, buf, data, size, offset, &m));
    if (size == 0 && offset == MBUF_USER)
        return error_set(ACL_ERROR_FAILURE,
                         "%s: 0 bytes at the end of the user data: size must be at least 1 there",
                         function);
    mbuf_set_user(m.mbuf, data, size, offset);
    return 0;
}

static int get_user(const char *function, acltdtBuf buf, void *data, size_t size, size_t offset)
{
    struct mbuf_ref m = {0};

    RETURN_IF_ERROR(find_user(function, buf, data, size, offset, &m));
    if (size == 0)
        return error_set(ACL_ERROR_FAILURE, "%s: size is 0", function);
    mbuf_get_user(m.mbuf, data, size, offset);
    return 0;
}

static int copy_ref(const char *function, acltdtBuf buf, acltdtBuf *copy)
{
    struct session *s;
    struct mbuf_ref m, made;

    if (!buf || !copy)
        return error_null(function, buf ? "newBuf" : "buf");
    RETURN_IF_ERROR(find_buffer(function, buf, &s, &m));
    RETURN_IF_ERROR(mbuf_chain_copy(function, s, &m, &made));
    if (checked_runs())
        checked_object(CHECK_OBJECT, CHECK_OBJECT_BUFFER, made.ref);
    *copy = mbuf_handle(made.word, made.ref);
    return 0;
}

static int append_chain(const char *function, acltdtBuf head, acltdtBuf buf)
{
    struct session *s;
    struct mbuf_ref to, more;

    if (!head || !buf)
        return error_null(function, head ? "buf" : "headBuf");
    RETURN_IF_ERROR(find_head(function, head, &s, &to));
    RETURN_IF_ERROR(mbuf_check_head(function, s, buf, &more));
    if (head == buf)
        return error_set(ACL_ERROR_RT_DRV_INTERNAL_ERROR,
                         "%s: headBuf and buf are the same buffer: append another one", function);
    RETURN_IF_ERROR(mbuf_chain_append(function, &to, &more));
    if (checked_runs()) /* it goes with the head */
        checked_object(CHECK_OBJECT_GONE, CHECK_OBJECT_BUFFER, more.ref);
    return 0;
}

static int chain_num(const char *function, acltdtBuf head, uint32_t *num)
{
    struct session *s;
    struct mbuf_ref m;

    if (!head || !num)
        return error_null(function, head ? "num" : "headBuf");
    RETURN_IF_ERROR(find_head(function, head, &s, &m));
    *num = mbuf_chain_count(&m);
    return 0;
}

static int from_chain(const char *function, acltdtBuf head, uint32_t index, acltdtBuf *buf)
{
    struct session *s;
    struct mbuf_ref m, member;

    if (!head || !buf)
        return error_null(function, head ? "buf" : "headBuf");
    RETURN_IF_ERROR(find_head(function, head, &s, &m));
    if (index >= MBUF_CHAIN_MAX)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: index %u: a chain has at most %u buffers",
                         function, index, MBUF_CHAIN_MAX);
    if (!mbuf_chain_at(&m, index, &member))
        return error_set(ACL_ERROR_RT_DRV_INTERNAL_ERROR, "%s: index %u: the chain has %u buffers",
                         function, index, mbuf_chain_count(&m));
    *buf = mbuf_handle(member.word, member.ref);
    return 0;
}

/* --- alloc, whose pair differs, and free: both enter the call themselves --- */

static __attribute__((cold, noinline)) int error_type(const char *function, uint32_t type)
{
    CALL_SCOPE_OF(function);

    return error_set(ACL_ERROR_INVALID_PARAM,
                     "%s: type is %u, must be ACL_TDT_NORMAL_MEM (0) or ACL_TDT_DVPP_MEM (1)",
                     function, type);
}

aclError acltdtAllocBuf(size_t size, uint32_t type, acltdtBuf *buf)
{
    /* All memory is aligned as DVPP asks for. */
    if (!FAST(type == ACL_TDT_NORMAL_MEM || type == ACL_TDT_DVPP_MEM))
        return error_type(__func__, type);
    return alloc_buf(tdt_alloc_long, size, buf);
}

static __attribute__((cold, noinline)) int error_size(const char *function, const acltdtBuf *buf)
{
    CALL_SCOPE_OF(function);

    return buf ? error_set(ACL_ERROR_INVALID_PARAM, "%s: size is 0", function)
               : error_null(function, "buf");
}

aclError aclrtAllocBuf(aclrtMbuf *buf, size_t size)
{
    if (!FAST(size != 0))
        return error_size(__func__, buf);
    return alloc_buf(rt_alloc_long, size, buf);
}

aclError acltdtFreeBuf(acltdtBuf buf)
{
    return free_buf(tdt_free_long, buf);
}

aclError aclrtFreeBuf(aclrtMbuf buf)
{
    return free_buf(rt_free_long, buf);
}

/* --- the others, in pairs --- */

#define TWINS(name, does, parameters, arguments)                                                   \
    aclError acltdt##name parameters                                                               \
    {                                                                                              \
        CALL_SCOPE;                                                                                \
        return does arguments;                                                                     \
    }                                                                                              \
    aclError aclrt##name parameters                                                                \
    {                                                                                              \
        CALL_SCOPE;                                                                                \
        return does arguments;                                                                     \
    }

TWINS(GetBufData, get_data, (acltdtBuf buf, void **dataPtr, size_t *size),
      (__func__, buf, dataPtr, size))
TWINS(SetBufDataLen, set_length, (acltdtBuf buf, size_t len), (__func__, buf, len))
TWINS(GetBufDataLen, get_length, (acltdtBuf buf, size_t *len), (__func__, buf, len))
TWINS(SetBufUserData, set_user, (acltdtBuf buf, const void *dataPtr, size_t size, size_t offset),
      (__func__, buf, dataPtr, size, offset))
TWINS(GetBufUserData, get_user, (acltdtBuf buf, void *dataPtr, size_t size, size_t offset),
      (__func__, buf, dataPtr, size, offset))
TWINS(CopyBufRef, copy_ref, (acltdtBuf buf, acltdtBuf *newBuf), (__func__, buf, newBuf))
TWINS(AppendBufChain, append_chain, (acltdtBuf headBuf, acltdtBuf buf), (__func__, headBuf, buf))
TWINS(GetBufChainNum, chain_num, (acltdtBuf headBuf, uint32_t *num), (__func__, headBuf, num))
TWINS(GetBufFromChain, from_chain, (acltdtBuf headBuf, uint32_t index, acltdtBuf *buf),
      (__func__, headBuf, index, buf))
