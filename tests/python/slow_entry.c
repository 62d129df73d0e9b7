/*
 * To be preloaded into a Python program: the thread of the library that calls exception callbacks
 * is slow in entering the interpreter, which looks for the state of the thread first, and the
 * process is slow to end after the interpreter has.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

static void sleep_ms(long ms)
{
    struct timespec t = {0, ms * 1000000};

    nanosleep(&t, 0);
}

void *pthread_getspecific(pthread_key_t key)
{
    static void *(*real)(pthread_key_t);
    char name[16] = "";

    if (!real)
        real = (void *(*)(pthread_key_t))dlsym(RTLD_NEXT, "pthread_getspecific");
    pthread_getname_np(pthread_self(), name, sizeof(name));
    if (strcmp(name, "npud-exception") == 0)
        sleep_ms(100);
    return real(key);
}

static __attribute__((destructor)) void linger(void)
{
    sleep_ms(300);
}
