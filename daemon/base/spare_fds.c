#include "daemon/base/spare_fds.h"

#include <fcntl.h>
#include <unistd.h>

void spare_fds_fill(struct spare_fds *spare)
{
    for (int i = 0; i < SPARE_FDS; i++)
        if (spare->fd[i] < 0)
            spare->fd[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

bool spare_fds_give_up(struct spare_fds *spare)
{
    for (int i = 0; i < SPARE_FDS; i++)
        if (spare->fd[i] >= 0) {
            close(spare->fd[i]);
            spare->fd[i] = -1;
            return true;
        }
    return false;
}

void spare_fds_deinit(struct spare_fds *spare)
{
    while (spare_fds_give_up(spare))
        ;
}
