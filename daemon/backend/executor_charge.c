/* Who pays for an executor. */
#include <errno.h>

#include "daemon/backend/executors.h"
#include "daemon/core/server.h"

int executor_charge(struct executor *x, bool again)
{
    struct user *user = user_ref(&x->all->server->users, x->uid);
    int r = user ? 0 : -ENOMEM;

    if (user && again)
        user_charge_again(&x->charge, user, RESOURCE_EXECUTORS, 1, false);
    else if (user)
        r = user_charge(&x->charge, user, RESOURCE_EXECUTORS, 1);
    if (r == 0)
        x->user = user;
    else
        user_unref(user);
    return r;
}

void executor_uncharge(struct executor *x)
{
    user_uncharge(&x->charge);
    user_unref(x->user);
    x->user = NULL;
}
