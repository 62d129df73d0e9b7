#include "client/check/check_stack.h"

#include <unwind.h>

struct unwinding {
    struct check_stack *stack;
    uintptr_t last; /* arm64: the frame pointer of the frame before */
    unsigned skip;  /* frames of this file */
};

/*
 * Where the return address into this frame lies. On x86-64 a call pushes it, below the frame of the
 * function that was called; elsewhere functions store it behind the frame pointer of their caller.
 */
static uintptr_t find_return_address(struct _Unwind_Context *context, struct unwinding *u)
{
#ifdef __x86_64__
    (void)u;
    return (uintptr_t)_Unwind_GetCFA(context) - sizeof(uintptr_t);
#elif defined(__aarch64__)
    uintptr_t at = u->last + sizeof(uintptr_t);

    u->last = (uintptr_t)_Unwind_GetGR(context, 29);
    return at;
#else
    (void)context;
    (void)u;
    return 0;
#endif
}

/* The stack of this thread, whatever a sanitizer thinks of frames of others. */
static __attribute__((no_sanitize("address", "thread"))) bool holds(uintptr_t at, uint64_t pc)
{
    return *(const volatile uintptr_t *)at == pc;
}

static _Unwind_Reason_Code note_frame(struct _Unwind_Context *context, void *object)
{
    struct unwinding *u = object;
    struct check_stack *s = u->stack;
    uint64_t pc = _Unwind_GetIP(context);
    uintptr_t at = find_return_address(context, u);

    if (u->skip > 0) {
        u->skip--;
        return _URC_NO_REASON;
    }
    if (pc == 0 || s->n == CHECK_FRAMES)
        return _URC_END_OF_STACK;
    if (at <= s->frame || at % sizeof(uintptr_t) != 0 || !holds(at, pc))
        s->exact = false;
    s->pc[s->n] = pc;
    s->at[s->n++] = at;
    return _URC_NO_REASON;
}

/* Frames within: this function, check_stack_find(), and its caller's. */
static __attribute__((noinline)) void unwind_stack(struct check_stack *s)
{
    struct unwinding u = {.stack = s, .skip = 3};

    s->n = 0;
    s->exact = true;
    _Unwind_Backtrace(note_frame, &u);
}

static bool is_same(const struct check_stack *s)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (!holds(s->at[i], s->pc[i]))
            return false;
    return true;
}

__attribute__((noinline)) struct check_stack *check_stack_find(
    struct check_stack cache[CHECK_STACKS], uintptr_t frame, uintptr_t address, uint32_t source,
    bool *known)
{
    uint64_t hash = (frame ^ address << 16 ^ source) * UINT64_C(0x9e3779b97f4a7c15);
    struct check_stack *s = &cache[hash >> 57 & (CHECK_STACKS - 1)];

    *known = s->number != 0 && s->frame == frame && s->address == address && s->source == source &&
             s->exact && is_same(s);
    if (*known)
        return s;
    *s = (struct check_stack){.frame = frame, .address = address, .source = source};
    unwind_stack(s);
    return s;
}
