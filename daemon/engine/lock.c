/* The lock of an engine, which other threads take between its turns. */
#include "daemon/engine/engine.h"

#include "daemon/core/device.h"
#include "daemon/core/engine.h"
#include "daemon/core/server.h"

void engine_lock(struct engine *e)
{
    if (pthread_mutex_trylock(&e->lock) == 0)
        return; /* mostly: the engine sleeps */
    atomic_fetch_add(&e->lock_waiters, 1);
    pthread_mutex_lock(&e->gate);
    pthread_mutex_lock(&e->lock);
    pthread_mutex_unlock(&e->gate);
    atomic_fetch_sub(&e->lock_waiters, 1);
}

void engine_unlock(struct engine *e)
{
    pthread_mutex_unlock(&e->lock);
}

bool engine_is_locked(struct engine *e)
{
    if (pthread_mutex_trylock(&e->lock) != 0)
        return true;
    pthread_mutex_unlock(&e->lock);
    return false;
}

void engines_lock(struct server *server)
{
    for (uint32_t i = 0; i < server->devices->n; i++)
        engine_lock(server->devices->device[i].engine);
}

void engines_unlock(struct server *server)
{
    for (uint32_t i = server->devices->n; i-- > 0;)
        engine_unlock(server->devices->device[i].engine);
}

void engine_let_others_in(struct engine *e)
{
    if (atomic_load_explicit(&e->lock_waiters, memory_order_relaxed) == 0)
        return;
    pthread_mutex_unlock(&e->lock);
    pthread_mutex_lock(&e->gate);
    pthread_mutex_lock(&e->lock);
    pthread_mutex_unlock(&e->gate);
}
