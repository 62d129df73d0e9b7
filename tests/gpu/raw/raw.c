#include "tests/gpu/raw/raw.h"

#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define GUARD_S 90 /* against hanging only: one whose partner has failed, for example */

static const char kernels[] = ".version 6.0\n"
                              ".target sm_50\n"
                              ".address_size 64\n"
                              ".visible .entry nop()\n"
                              "{\n"
                              "    ret;\n"
                              "}\n"
                              ".visible .entry spin(.param .u64 ns)\n"
                              "{\n"
                              "    .reg .b64 %begin, %now, %limit;\n"
                              "    .reg .pred %more;\n"
                              "    ld.param.u64 %limit, [ns];\n"
                              "    mov.u64 %begin, %globaltimer;\n"
                              "again:\n"
                              "    mov.u64 %now, %globaltimer;\n"
                              "    sub.u64 %now, %now, %begin;\n"
                              "    setp.lt.u64 %more, %now, %limit;\n"
                              "    @%more bra again;\n"
                              "    ret;\n"
                              "}\n";

void raw_fail(const char *call, int result)
{
    printf("{\"failed\": \"%.*s\", \"result\": %d}\n", (int)strcspn(call, "\""), call, result);
    exit(1);
}

static _Noreturn void say_no_gpu(const char *why)
{
    fprintf(stderr, "no GPU: %s\n", why);
    exit(RAW_NO_GPU);
}

static void load_more(struct raw_api *more, void *dl)
{
    void *symbol;

#define FIND(name, arguments)                                                                      \
    symbol = dlsym(dl, #name);                                                                     \
    if (!symbol)                                                                                   \
        raw_fail(#name, CUDA_NOT_FOUND);                                                           \
    memcpy(&more->name, &symbol, sizeof(symbol));
    CUDA_RAW_FUNCTIONS(FIND)
}

void raw_load(struct raw *raw)
{
    const char *path = getenv("NPUD_TEST_CUDA");
    struct cuda_symbols symbols;
    void *dl = dlopen(path ? path : "libcuda.so.1", RTLD_NOW);
    cuda_result result;
    int n = 0;

    alarm(GUARD_S);
    if (!dl)
        say_no_gpu(dlerror());
    memset(raw, 0, sizeof(*raw));
    cuda_api_load(&raw->cu, dl, &symbols);
    if (symbols.found < symbols.known)
        raw_fail(symbols.absent, CUDA_NOT_FOUND);
    load_more(&raw->more, dl);
    result = raw->cu.cuInit(0);
    if (result == CUDA_NO_DEVICE ||
        (result == CUDA_SUCCESS && (raw->cu.cuDeviceGetCount(&n) != CUDA_SUCCESS || n == 0)))
        say_no_gpu("the driver has no device");
    MUST(result);
}

void raw_begin(struct raw *raw)
{
    cuda_device device;
    cuda_module module;

    raw_load(raw);
    MUST(raw->cu.cuDeviceGet(&device, 0));
    MUST(raw->cu.cuDevicePrimaryCtxRetain(&raw->context, device));
    MUST(raw->cu.cuCtxSetCurrent(raw->context));
    MUST(raw->cu.cuStreamCreateWithPriority(&raw->stream, CUDA_STREAM_NON_BLOCKING, 0));
    MUST(raw->cu.cuModuleLoadData(&module, kernels));
    MUST(raw->cu.cuModuleGetFunction(&raw->nop, module, "nop"));
    MUST(raw->cu.cuModuleGetFunction(&raw->spin, module, "spin"));
    raw_nop(raw);
    MUST(raw->cu.cuStreamSynchronize(raw->stream));
}

void raw_spin(struct raw *raw, uint64_t ns)
{
    size_t size = sizeof(ns);
    void *extra[] = {CUDA_LAUNCH_BUFFER, &ns, CUDA_LAUNCH_SIZE, &size, CUDA_LAUNCH_END};

    MUST(raw->cu.cuLaunchKernel(raw->spin, 1, 1, 1, 1, 1, 1, 0, raw->stream, NULL, extra));
}

void raw_nop(struct raw *raw)
{
    MUST(raw->cu.cuLaunchKernel(raw->nop, 1, 1, 1, 1, 1, 1, 0, raw->stream, NULL, NULL));
}

unsigned raw_rounds(unsigned n)
{
    return getenv("RAW_SHORT") && n > 8 ? 8 : n;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

uint64_t raw_percentile(uint64_t *values, unsigned n, unsigned percent)
{
    qsort(values, n, sizeof(*values), compare);
    return values[(uint64_t)(n - 1) * percent / 100];
}

void *raw_share(size_t size)
{
    void *shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (shared == MAP_FAILED)
        raw_fail("mmap", 0);
    return shared;
}

pid_t raw_fork(int (*fn)(void *arg), void *arg)
{
    pid_t pid = fork();

    if (pid < 0)
        raw_fail("fork", 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        exit(fn(arg));
    }
    return pid;
}

int raw_reap(pid_t pid)
{
    int status;

    if (waitpid(pid, &status, 0) != pid)
        raw_fail("waitpid", 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void raw_meet(_Atomic unsigned *word, unsigned n)
{
    atomic_fetch_add(word, 1);
    while (atomic_load(word) < n)
        sched_yield();
}

void raw_await(_Atomic uint64_t *word, uint64_t value)
{
    for (unsigned spins = 1; atomic_load(word) < value; spins++)
        if (spins % 4096 == 0)
            sched_yield();
}
