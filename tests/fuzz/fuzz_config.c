/*
 * npud.conf and --set: whatever they say, the values that come out are ones that npud can live
 * with.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/base/config.h"
#include "daemon/base/log.h"
#include "fuzz.h"

static void must_be_sane(const struct config *c)
{
    MUST(c->socket && c->admin_socket && c->access_group && c->admin_group && c->backend &&
         c->soc_name);
    MUST(c->devices >= 1 && c->devices <= 16);
    MUST(c->device_memory >= 1 << 20 && c->device_memory <= UINT64_C(1) << 46);
    MUST(c->spin_us <= 1000000);
    MUST(c->ring_depth >= 64 && c->ring_depth <= 65536 && !(c->ring_depth & (c->ring_depth - 1)));
    MUST(c->linger_max <= 1 << 20);
    MUST(c->submit_ms <= 3600000);
}

/* The first byte says how the rest is read: as a file, or as one assignment per line. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    bool as_file = take_u8(&in) & 1;
    struct config config;
    char path[32];
    char *text, *line, *rest;
    int fd;

    log_setup(LOG_CRIT);
    config_init(&config);
    if (as_file) {
        fd = memfd_create("config", MFD_CLOEXEC);
        MUST(fd >= 0 && write(fd, in.data, in.size) == (ssize_t)in.size);
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        config_read(&config, path);
        close(fd);
    } else {
        text = strndup((const char *)in.data, in.size);
        MUST(text);
        for (line = text; (line = strtok_r(line, "\n", &rest)); line = NULL)
            config_set(&config, line);
        free(text);
    }
    must_be_sane(&config);
    config_deinit(&config);
    return 0;
}
