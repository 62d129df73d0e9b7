#include "daemon/buffers/channel_name.h"

#include <assert.h>
#include <search.h>
#include <string.h>

#include "daemon/core/user.h"

static int compare_names(const void *a, const void *b)
{
    const struct channel_name *x = a, *y = b;

    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    return strcmp(x->text, y->text);
}

struct channel_name *channel_name_find(const struct user *user, const struct channel_name *key)
{
    struct channel_name **node = tfind(key, &user->channels, compare_names);

    return node ? *node : NULL;
}

bool channel_name_list(struct user *user, struct channel_name *name)
{
    struct channel_name **node = tsearch(name, &user->channels, compare_names);

    assert(!node || *node == name);
    name->listed = node != NULL;
    return name->listed;
}

void channel_name_unlist(struct user *user, struct channel_name *name)
{
    if (!name->listed)
        return;
    name->listed = false;
    tdelete(name, &user->channels, compare_names);
}
