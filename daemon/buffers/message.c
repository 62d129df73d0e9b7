#include "daemon/buffers/message.h"

#include <stdlib.h>

#include "daemon/buffers/chain.h"
#include "daemon/buffers/relay.h"
#include "daemon/buffers/route.h"

/* Memory for the next message. False: none. */
bool message_prepare(struct router *router)
{
    if (!router->spare)
        router->spare = calloc(1, sizeof(*router->spare));
    return router->spare != NULL;
}

struct message *message_new(struct router *router, uint32_t ref, const struct chain *chain)
{
    struct message *m = router->spare;
    uint64_t kib = (chain->bytes + 1023) >> 10;

    router->spare = NULL;
    *m = (struct message){.ref = ref, .kib = kib > UINT32_MAX ? UINT32_MAX : (uint32_t)kib};
    return m;
}

/* One route less has to deliver it. After the last one npud may still have the buffers. */
void message_done(struct router *router, struct message *m)
{
    if (--m->n_routes > 0)
        return;
    chain_free(router->server, m->ref);
    if (router->spare)
        free(m);
    else
        router->spare = m;
}

void message_free_spare(struct router *router)
{
    free(router->spare);
    router->spare = NULL;
}
