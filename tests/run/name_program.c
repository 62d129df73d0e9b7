/*
 * Calls itself what $NAME says, if that is set, begins a session, and runs $ASK.
 * usage: name_program [WORD...]: as argv[0] and the words of any program.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "acl/acl.h"

int main(void)
{
    const char *name = getenv("NAME"), *ask = getenv("ASK");

    if (name)
        prctl(PR_SET_NAME, name);
    if (aclInit(NULL) != 0 || aclrtSetDevice(0) != 0) {
        fprintf(stderr, "%s\n", aclGetRecentErrMsg());
        return 1;
    }
    return ask && system(ask) != 0;
}
