#include "client/kernel/kernel_fault.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "client/core/api_call.h"
#include "client/core/lifecycle.h"
#include "client/core/process.h"

#define ALTERNATE_STACK ((size_t)64 << 10) /* the kernel may have used up its own */
#define STAYS_MOST      2000               /* how often a thread stays that is elsewhere */

__thread struct kernel_thread *kernel_thread_current;

/*
 * What another thread sends. Not one that processors make: valgrind, which can block those at no
 * time, may lose its lock when one is sent. By default it is ignored, and debuggers do not stop.
 */
#define SIGNAL_END SIGURG

static const struct {
    int signal;
    const char *name;
} taken[] = {
    {SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"},   {SIGFPE, "SIGFPE"},
    {SIGILL, "SIGILL"},   {SIGTRAP, "SIGTRAP"}, {SIGNAL_END, "SIGURG"},
};

#define TAKEN (sizeof(taken) / sizeof(taken[0]))

/*
 * What was there before. Written before the handler of the signal is there; afterwards only by a
 * handler of SA_RESETHAND that is called.
 */
static struct sigaction before[TAKEN];
static bool faults_are_taken; /* those of kernels */

const char *kernel_fault_name(int signal)
{
    for (size_t i = 0; i < TAKEN; i++)
        if (taken[i].signal == signal)
            return taken[i].name;
    return "a signal";
}

/* --- in the handler --- */

static uintptr_t instruction_of(const ucontext_t *context)
{
#if defined(__x86_64__)
    return (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    return (uintptr_t)context->uc_mcontext.pc;
#else
    (void)context;
    return 0;
#endif
}

/*
 * A signal that was sent, and the default for which is to end the process, is sent once more; the
 * instruction that made the signal makes it once more by itself when the handler has returned.
 */
static void fall_back(int signal, const siginfo_t *info, const struct sigaction *old)
{
    if (signal == SIGNAL_END || (old->sa_handler == SIG_IGN && info->si_code <= 0))
        return;
    sigaction(signal, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    if (info->si_code <= 0)
        syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), signal);
}

static void pass_on(int signal, siginfo_t *info, void *context)
{
    struct sigaction *kept = NULL, old;
    sigset_t mask;

    for (size_t i = 0; i < TAKEN; i++)
        if (taken[i].signal == signal)
            kept = &before[i];
    old = *kept;
    if (old.sa_handler == SIG_DFL || old.sa_handler == SIG_IGN) {
        fall_back(signal, info, &old);
        return;
    }
    if (old.sa_flags & SA_RESETHAND)
        *kept = (struct sigaction){.sa_handler = SIG_DFL};
    if (!(old.sa_flags & (SA_NODEFER | SA_RESETHAND)))
        sigaddset(&old.sa_mask, signal);
    pthread_sigmask(SIG_BLOCK, &old.sa_mask, &mask);
    if (old.sa_flags & SA_SIGINFO)
        old.sa_sigaction(signal, info, context);
    else
        old.sa_handler(signal);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
}

/*
 * kernel_fault_interrupt() has sent it, if the thread is one of kernels. If as many signals are
 * pending as the user may have (RLIMIT_SIGPENDING), Linux does not tell by which process, or how.
 */
static bool is_interrupt(int signal, const siginfo_t *info)
{
    return signal == SIGNAL_END && info->si_code <= 0 &&
           (info->si_pid == getpid() || info->si_pid == 0);
}

/*
 * Has the signal ended a sleep in a system call? It goes back to the call, or fails with EINTR:
 * other calls that a signal follows have done what they shall.
 */
static bool ends_sleep(const ucontext_t *context)
{
    const unsigned char *at = (void *)instruction_of(context);
    bool failed;
#if defined(__x86_64__)
    static const unsigned char call[] = {0x0f, 0x05};

    failed = context->uc_mcontext.gregs[REG_RAX] == -EINTR;
#elif defined(__aarch64__)
    static const unsigned char call[] = {0x01, 0x00, 0x00, 0xd4};

    failed = context->uc_mcontext.regs[0] == (unsigned long long)-EINTR;
#else
    static const unsigned char call[] = {0};

    return true; /* it is not known where the thread is */
#endif
    return memcmp(failed ? at - sizeof(call) : at, call, sizeof(call)) == 0;
}

/* Is the thread in another library than that of the kernel? There, it may hold a lock. */
static bool is_elsewhere(const struct kernel_thread *t, const ucontext_t *context)
{
    struct dl_find_object here, kernel;

    return _dl_find_object((void *)instruction_of(context), &here) == 0 &&
           _dl_find_object((void *)(uintptr_t)t->function, &kernel) == 0 &&
           here.dlfo_link_map != kernel.dlfo_link_map;
}

/* A thread that stays is asked again, by kernel_fault_interrupt(). */
static void leave_if_possible(struct kernel_thread *t, const ucontext_t *context)
{
    if (!t->inside || t->holds > 0 || api_call_inside() || !kernel_thread_shall_end(t))
        return;
    if (is_elsewhere(t, context) && !ends_sleep(context) && t->stays++ < STAYS_MOST)
        return;
    siglongjmp(t->jump, 1);
}

static void handle_signal(int signal, siginfo_t *info, void *context)
{
    struct kernel_thread *t = kernel_thread_current;
    bool interrupt = is_interrupt(signal, info);
    int error = errno;

    /* A child that was forked in a kernel is a program of its own. */
    if (t && t->process != getpid())
        t = NULL;
    if (t && interrupt) {
        /* Else the thread looks before it enters a kernel, and when it ends a hold. */
        if (t->run)
            leave_if_possible(t, context);
        errno = error;
        return;
    }
    if (t && t->inside && t->holds == 0 && info->si_code > 0 && signal != SIGNAL_END &&
        faults_are_taken && !api_call_inside()) {
        t->signal = signal;
        t->address = (uintptr_t)info->si_addr;
        t->instruction = instruction_of(context);
        siglongjmp(t->jump, 1);
    }
    pass_on(signal, info, context);
    errno = error;
}

/* --- outside of it --- */

void kernel_hold_end(struct kernel_thread *t)
{
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    t->holds--;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (t->holds == 0 && t->inside && kernel_thread_shall_end(t))
        siglongjmp(t->jump, 1);
}

void kernel_fault_leave(struct kernel_thread *t, int signal)
{
    t->signal = signal;
    t->address = t->instruction = 0;
    siglongjmp(t->jump, 1);
}

void kernel_fault_interrupt(const struct kernel_thread *t)
{
    pthread_kill(t->id, SIGNAL_END);
}

static void install_handlers(void)
{
    const char *setting = getenv("NPUD_KERNEL_FAULTS");
    struct sigaction action = {.sa_sigaction = handle_signal,
                               .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SA_RESTART};

    faults_are_taken = !setting || strcmp(setting, "core") != 0;
    for (size_t i = 0; i < TAKEN; i++) {
        if (!faults_are_taken && taken[i].signal != SIGNAL_END)
            continue;
        /* The old one first: the handler may run at once. */
        sigaction(taken[i].signal, NULL, &before[i]);
        sigaction(taken[i].signal, &action, NULL);
    }
}

void kernel_fault_prepare(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, install_handlers);
}

/* A fault that is blocked ends the process, whatever its handler is. */
static void let_signals_through(void)
{
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < TAKEN; i++)
        sigaddset(&set, taken[i].signal);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

/* Without a mark of its own, it would count as inside a call for ever. */
static bool has_mark(void)
{
    {
        CALL_SCOPE_OF(NULL);
    }
    return !api_call_inside();
}

struct kernel_thread *kernel_thread_self(void)
{
    struct kernel_thread *t = kernel_thread_current;
    stack_t stack = {.ss_size = ALTERNATE_STACK};

    if (t)
        return t;
    t = calloc(1, sizeof(*t));
    stack.ss_sp = malloc(ALTERNATE_STACK);
    if (!t || !stack.ss_sp || !has_mark()) {
        free(t);
        free(stack.ss_sp);
        return NULL;
    }
    t->id = pthread_self();
    t->process = getpid();
    t->alternate_stack = stack.ss_sp;
    sigaltstack(&stack, NULL);
    kernel_thread_current = t;
    let_signals_through();
    return t;
}

static void thread_end(struct thread *unused)
{
    struct kernel_thread *t = kernel_thread_current;
    sigset_t end;

    (void)unused;
    if (!t)
        return;
    /* One that is on its way is no signal of the program. */
    sigemptyset(&end);
    sigaddset(&end, SIGNAL_END);
    pthread_sigmask(SIG_BLOCK, &end, NULL);
    kernel_thread_current = NULL;
    sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL);
    free(t->alternate_stack);
    free(t);
}

const struct part kernel_fault_part = {.thread_exit = thread_end};
