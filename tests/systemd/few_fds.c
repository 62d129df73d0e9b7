/*
 * For check-systemd, in place of an installed npud: npud.real beside it, as if this build of npud
 * needed more descriptors than it may have. It becomes ready, it can read the tables, and it fails
 * when it recovers.
 */
#include <sys/resource.h>
#include <unistd.h>

#define FDS 13 /* a standby has 12 at most; a recovery takes one for each that is kept */

int main(int argc, char **argv)
{
    const struct rlimit few = {.rlim_cur = FDS, .rlim_max = FDS};

    (void)argc;
    if (setrlimit(RLIMIT_NOFILE, &few) == 0)
        execv("/usr/sbin/npud.real", argv);
    return 1;
}
