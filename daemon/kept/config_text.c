#include "daemon/kept/config_text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/config.h"
#include "daemon/base/keeper_link.h"
#include "daemon/base/log.h"
#include "daemon/base/memfd.h"

static int kept = -1;

static void enumerate(void *arg, keeper_take *take, void *to)
{
    (void)arg;
    if (kept >= 0)
        take(to, KEEPER_KEY_CONFIG, kept);
}

/* Sealed: a server that fetches it reads what was written here, whole. fd or -errno. */
static int text_file(const char *text, size_t size)
{
    int fd = memfd_new_empty("npud-config"), r = 0;

    if (fd < 0)
        return fd;
    if (size > 0 && write(fd, text, size) != (ssize_t)size)
        r = errno ? -errno : -ENOSPC;
    if (r == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
        r = -errno;
    if (r == 0)
        return fd;
    close(fd);
    return r;
}

void config_text_keep(const struct config *config)
{
    static bool is_source;
    int fd;

    if (!keeper_link_is_open())
        return;
    errno = 0;
    fd = text_file(config->text, config->size);
    if (fd < 0) {
        log_error("the configuration cannot be kept for a next server: %s", strerror(-fd));
        return;
    }
    if (!is_source)
        keeper_link_add_source(enumerate, NULL);
    is_source = true;
    keeper_put(KEEPER_KEY_CONFIG, fd);
    if (kept >= 0)
        close(kept);
    kept = fd;
}

char *config_text_fetch(size_t *size)
{
    int fd, r = keeper_peek(KEEPER_KEY_CONFIG, &fd);
    char *text = NULL;
    struct stat st;

    if (r == -ENOENT)
        return NULL;
    if (r == 0 && fstat(fd, &st) < 0)
        r = -errno;
    if (r == 0 && !(text = malloc((size_t)st.st_size + 1)))
        r = -ENOMEM;
    if (r == 0 && pread(fd, text, (size_t)st.st_size, 0) != st.st_size)
        r = -EIO;
    if (fd >= 0)
        close(fd);
    if (r == 0) {
        *size = (size_t)st.st_size;
        text[*size] = '\0';
        return text;
    }
    log_error("the configuration of before cannot be fetched from the keeper: %s", strerror(-r));
    free(text);
    return NULL;
}
