/* Who pays for an executor. */
#include <errno.h>

#include "daemon/backend/executors.h"
#include "daemon/core/server.h"

#define FILES 2 /* ring and page */

/* As executor_new() answers. */
static int charge_files(struct executor *x, struct user *user)
{
    int r = user_charge_files(&x->files, user, FILES);

    return r == -EDQUOT ? -EMLINK : r;
}

static void charge_again(struct executor *x, struct user *user)
{
    user_charge_again(&x->charge, user, RESOURCE_EXECUTORS, 1, false);
    user_charge_again(&x->files, user, RESOURCE_FDS, FILES, true);
}

int executor_charge(struct executor *x, bool again)
{
    struct user *user = user_ref(&x->all->server->users, x->uid);
    int r = user ? 0 : -ENOMEM;

    if (user && again)
        charge_again(x, user);
    else if (user)
        r = user_charge(&x->charge, user, RESOURCE_EXECUTORS, 1);
    if (r == 0 && !again)
        r = charge_files(x, user);
    if (r < 0)
        user_uncharge(&x->charge);
    if (r == 0)
        x->user = user;
    else
        user_unref(user);
    return r;
}

void executor_uncharge(struct executor *x)
{
    user_uncharge(&x->charge);
    user_uncharge(&x->files);
    user_unref(x->user);
    x->user = NULL;
}
