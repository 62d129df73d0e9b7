#include "daemon/executor/answer.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "daemon/executor/vendor.h"
#include "proto/util/fd_message.h"

/* Without a word to the library, whose handlers for the end of the process might not return. */
_Noreturn void answer_nobody(int error)
{
    _exit(error == 0 || error == -EPIPE || error == -ECONNRESET ? 0 : 1);
}

void answer_send(struct executor_answer *answer, const void *more, size_t size, int fd)
{
    struct {
        struct executor_answer answer;
        unsigned char more[ANSWER_MORE];
    } message;
    int r;

    assert(size <= ANSWER_MORE);
    if (answer->code != 0)
        snprintf(answer->text, sizeof(answer->text), "%s", vendor_text());
    message.answer = *answer;
    if (size > 0)
        memcpy(message.more, more, size);
    r = fd_message_send(EXECUTOR_SOCKET, &message, sizeof(*answer) + size, &fd, fd >= 0, 0);
    if (r < 0)
        answer_nobody(r);
}
