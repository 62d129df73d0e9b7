#include "client/runtime/visible.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ASCEND_RT_VISIBLE_DEVICES as it was when the process first asked: NULL when not set. */
static const char *visible_text;
static pthread_once_t visible_once = PTHREAD_ONCE_INIT;

static void read_environment(void)
{
    const char *text = getenv("ASCEND_RT_VISIBLE_DEVICES");

    visible_text = text ? strdup(text) : NULL;
}

/* One number that ends at a comma or at the end, and names a device. */
static bool read_id(const char *text, uint32_t n_devices, uint32_t *id, const char **end)
{
    unsigned long value;
    char *stop;

    if (*text < '0' || *text > '9')
        return false;
    value = strtoul(text, &stop, 10);
    if ((*stop != ',' && *stop != '\0') || value >= n_devices)
        return false;
    *id = (uint32_t)value;
    *end = *stop ? stop + 1 : stop;
    return true;
}

/*
 * "0,2": ascending numbers. Reading stops at the first thing that is no number, or no device; what
 * came before counts. Wrong order or a repetition spoils all of it.
 */
void visible_read(struct visible *v, uint32_t n_devices)
{
    const char *text;
    uint32_t id;

    pthread_once(&visible_once, read_environment);
    text = visible_text;
    v->set = text != NULL;
    while (text && read_id(text, n_devices, &id, &text)) {
        if (v->n > 0 && id <= v->device[v->n - 1]) {
            v->n = 0;
            return;
        }
        v->device[v->n++] = id;
    }
}
