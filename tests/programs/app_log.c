/* Lines of the program in the log, from the level in the environment on. */
#include "expect.h"

#include <string.h>

int main(void)
{
    char text[4096] = "";
    int ends[2];

    setenv("ASCEND_GLOBAL_LOG_LEVEL", "2", 1);
    setenv("ASCEND_SLOG_PRINT_TO_STDOUT", "0", 1);
    EXPECT(pipe(ends) == 0);
    EXPECT(dup2(ends[1], STDERR_FILENO) == STDERR_FILENO);
    ACL_APP_LOG(ACL_INFO, "step %d", 1);
    ACL_APP_LOG(ACL_WARNING, "step %d is slow", 2);
    ACL_APP_LOG(ACL_ERROR, "step %d failed", 3);
    EXPECT(read(ends[0], text, sizeof(text) - 1) > 0);
    dup2(STDOUT_FILENO, STDERR_FILENO);
    EXPECT(!strstr(text, "step 1"));
    EXPECT(strstr(text, "step 2 is slow") && strstr(text, "step 3 failed"));
    EXPECT(strstr(text, "main") && strstr(text, "app_log.c"));
    fputs(text, stdout);
    return 0;
}
