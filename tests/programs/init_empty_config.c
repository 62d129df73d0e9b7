/* A configuration file without a word in it is none. */
#include "expect.h"

#include <string.h>

static void init_with(const char *text)
{
    char path[] = "/tmp/acl-empty-XXXXXX";
    int fd = mkstemp(path);

    EXPECT(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
    CALL(aclInit(path));
    unlink(path);
    CALL(aclrtSetDevice(0));
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
}

int main(void)
{
    init_with("");
    CALL(aclInit(""));
    CALL(aclFinalize());
    CALL(aclInit(NULL));
    CALL(aclFinalize());
    puts("without a configuration, in three ways");
    return 0;
}
