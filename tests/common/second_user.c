#include "tests/common/second_user.h"

#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/common/harness.h"

void second_user_let_in(void)
{
    if (geteuid() != 0)
        return;
    ck_assert_int_eq(chmod(npud.dir, 0711), 0);
    ck_assert_int_eq(chmod(getenv("NPUD_SOCKET"), 0666), 0);
}

void second_user_become(void)
{
    if (geteuid() == 0 &&
        (setgroups(0, NULL) < 0 || setresgid(SECOND_USER, SECOND_USER, SECOND_USER) < 0 ||
         setresuid(SECOND_USER, SECOND_USER, SECOND_USER) < 0)) {
        perror("to become the second user");
        _exit(1);
    }
    /* Both are forgotten when the user changes. The second: its own /proc/self/fd is its own. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_DUMPABLE, 1);
}
