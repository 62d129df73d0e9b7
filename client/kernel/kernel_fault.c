#include "client/kernel/kernel_fault.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "client/core/lifecycle.h"
#include "client/core/process.h"

#define ALTERNATE_STACK ((size_t)64 << 10) /* the kernel may have used up its own */
#define SIGNAL_END      SIGILL             /* what another thread sends */

__thread struct kernel_thread *kernel_thread_current;

static const struct {
    int signal;
    const char *name;
} faults[] = {
    {SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"},   {SIGFPE, "SIGFPE"},
    {SIGILL, "SIGILL"},   {SIGTRAP, "SIGTRAP"},
};

#define FAULTS (sizeof(faults) / sizeof(faults[0]))

/* What was there before. Written before the handler of the signal is there. */
static struct sigaction before[FAULTS];
static bool faults_are_taken; /* those of kernels */

const char *kernel_fault_name(int signal)
{
    for (size_t i = 0; i < FAULTS; i++)
        if (faults[i].signal == signal)
            return faults[i].name;
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
    if (old->sa_handler == SIG_IGN && info->si_code <= 0)
        return;
    sigaction(signal, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    if (info->si_code <= 0)
        syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), signal);
}

static void pass_on(int signal, siginfo_t *info, void *context)
{
    const struct sigaction *old = NULL;
    sigset_t mask;

    for (size_t i = 0; i < FAULTS; i++)
        if (faults[i].signal == signal)
            old = &before[i];
    if (old->sa_handler == SIG_DFL || old->sa_handler == SIG_IGN) {
        fall_back(signal, info, old);
        return;
    }
    pthread_sigmask(SIG_BLOCK, &old->sa_mask, &mask);
    if (old->sa_flags & SA_SIGINFO)
        old->sa_sigaction(signal, info, context);
    else
        old->sa_handler(signal);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
}

/* kernel_fault_interrupt() of this process has sent it. */
static bool is_interrupt(int signal, const siginfo_t *info)
{
    return signal == SIGNAL_END && info->si_code == SI_TKILL && info->si_pid == getpid();
}

static void handle_signal(int signal, siginfo_t *info, void *context)
{
    struct kernel_thread *t = kernel_thread_current;
    bool interrupt = is_interrupt(signal, info);
    int error = errno;

    /* A child that was forked in a kernel is a program of its own. */
    if (t && t->process != getpid())
        t = NULL;
    if (t && interrupt && t->run) {
        if (t->inside && t->holds == 0 && kernel_thread_shall_end(t))
            siglongjmp(t->jump, 1);
        return; /* the thread looks before it enters a kernel, and when it ends a hold */
    }
    if (t && t->inside && t->holds == 0 && info->si_code > 0 && faults_are_taken) {
        t->signal = signal;
        t->address = (uintptr_t)info->si_addr;
        t->instruction = instruction_of(context);
        siglongjmp(t->jump, 1);
    }
    if (interrupt && t)
        return; /* it came late */
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
    for (size_t i = 0; i < FAULTS; i++) {
        if (!faults_are_taken && faults[i].signal != SIGNAL_END)
            continue;
        /* The old one first: the handler may run at once. */
        sigaction(faults[i].signal, NULL, &before[i]);
        sigaction(faults[i].signal, &action, NULL);
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
    for (size_t i = 0; i < FAULTS; i++)
        sigaddset(&set, faults[i].signal);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

struct kernel_thread *kernel_thread_self(void)
{
    struct kernel_thread *t = kernel_thread_current;
    stack_t stack = {.ss_size = ALTERNATE_STACK};

    if (t)
        return t;
    t = calloc(1, sizeof(*t));
    stack.ss_sp = malloc(ALTERNATE_STACK);
    if (!t || !stack.ss_sp) {
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

    (void)unused;
    if (!t)
        return;
    kernel_thread_current = NULL;
    sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL);
    free(t->alternate_stack);
    free(t);
}

const struct part kernel_fault_part = {.thread_exit = thread_end};
