/* Configurations that are refused leave the library as it was. */
#include "expect.h"

#include <string.h>

static void write_config(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    EXPECT(file);
    EXPECT(fputs(text, file) >= 0);
    EXPECT(fclose(file) == 0);
}

int main(void)
{
    const char *folder = getenv("TMPDIR");
    char path[256];

    snprintf(path, sizeof(path), "%s/acl.%d.json", folder ? folder : "/tmp", (int)getpid());
    FAILS(ACL_ERROR_INVALID_FILE, aclInit("/nowhere/acl.json"));
    write_config(path, "{\"defaultDevice\": ");
    FAILS(ACL_ERROR_PARSE_FILE, aclInit(path));
    EXPECT(strstr(aclGetRecentErrMsg(), path));
    write_config(path, "{}");
    CALL(aclInit(path));
    unlink(path);
    CALL(aclFinalize());
    puts("two were refused, the third was taken");
    return 0;
}
