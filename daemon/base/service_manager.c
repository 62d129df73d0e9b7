#include "daemon/base/service_manager.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>

#include "daemon/base/outbox.h"

/* A manager that does not read is behind by minutes then: a later message says all that counts. */
#define MESSAGES_WAITING 16
#define STOP_MS          500

static struct outbox *outbox;

static void message_deliver(const void *message, size_t size, uint64_t lost)
{
    (void)size;
    (void)lost;
    sd_notify(0, message);
}

int service_manager_start(void)
{
    if (!getenv("NOTIFY_SOCKET"))
        return 0;
    outbox = outbox_new(message_deliver, MESSAGES_WAITING);
    return outbox ? 0 : -ENOMEM;
}

void service_manager_stop(void)
{
    outbox = outbox_free(outbox, STOP_MS);
}

void service_manager_tell(const char *fmt, ...)
{
    char text[512];
    va_list ap;

    if (!outbox)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    outbox_put(outbox, text, strlen(text) + 1);
}
