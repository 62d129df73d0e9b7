#include "daemon/executor/acl_report.h"

#include <stdlib.h>

#include "daemon/executor/acl_api.h"
#include "daemon/executor/vendor.h"

/* A thread that waits for ever would not be told that its last stream has gone. */
#define PATIENCE_MS 1000

struct acl_report {
    struct vendor_library *library;
    aclrtContext context;
    pthread_t thread;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t more;
    unsigned streams;
    bool stop;
};

/* Without a stream the library would return at once: waits for one. False: the end. */
static bool has_streams(struct acl_report *r)
{
    bool has;

    pthread_mutex_lock(&r->lock);
    while (r->streams == 0 && !r->stop)
        pthread_cond_wait(&r->more, &r->lock);
    has = !r->stop;
    pthread_mutex_unlock(&r->lock);
    return has;
}

static void *run_reports(void *arg)
{
    struct acl_report *r = arg;
    struct vendor_library *l = r->library;
    aclError code = l->call.aclrtSetCurrentContext(r->context);

    while (code == ACL_SUCCESS && has_streams(r)) {
        code = l->call.aclrtProcessReport(PATIENCE_MS);
        /* Nothing came; or the last stream went meanwhile, which has_streams() will see. */
        if (code == ACL_ERROR_RT_REPORT_TIMEOUT || code == ACL_ERROR_RT_THREAD_SUBSCRIBE)
            code = ACL_SUCCESS;
    }
    return NULL;
}

static void add_streams(struct acl_report *r, int n)
{
    pthread_mutex_lock(&r->lock);
    r->streams += (unsigned)n;
    pthread_cond_signal(&r->more);
    pthread_mutex_unlock(&r->lock);
}

static struct acl_report *start(struct vendor_library *l, aclrtContext context)
{
    struct acl_report *r = calloc(1, sizeof(*r));

    if (!r)
        return NULL;
    r->library = l;
    r->context = context;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->more, NULL);
    if (pthread_create(&r->thread, NULL, run_reports, r) == 0)
        return r;
    pthread_cond_destroy(&r->more);
    pthread_mutex_destroy(&r->lock);
    free(r);
    return NULL;
}

int32_t acl_report_serve(struct vendor_library *l, uint32_t device, aclrtContext context,
                         aclrtStream stream)
{
    struct acl_device *d = &l->device[device];
    struct acl_report *r;
    int32_t code;

    if (!ACL_HAS(l, aclrtProcessReport) || !ACL_HAS(l, aclrtUnSubscribeReport))
        return acl_lacks("aclrtProcessReport");
    pthread_mutex_lock(&l->lock);
    if (!d->report)
        d->report = start(l, context);
    r = d->report;
    pthread_mutex_unlock(&l->lock);
    if (!r) {
        vendor_set_text("no thread for calls from lanes");
        return ACL_ERROR_RT_RESOURCE_ALLOC_FAIL;
    }
    code = ACL_CALL(l, aclrtSubscribeReport, (uint64_t)r->thread, stream);
    if (code == 0)
        add_streams(r, 1);
    return code;
}

void acl_report_leave(struct vendor_library *l, uint32_t device, aclrtStream stream)
{
    struct acl_report *r = l->device[device].report;

    l->call.aclrtUnSubscribeReport((uint64_t)r->thread, stream);
    add_streams(r, -1);
}

void acl_report_end(struct vendor_library *l, uint32_t device)
{
    struct acl_report *r = l->device[device].report;

    if (!r)
        return;
    pthread_mutex_lock(&r->lock);
    r->stop = true;
    pthread_cond_signal(&r->more);
    pthread_mutex_unlock(&r->lock);
    pthread_join(r->thread, NULL);
    pthread_cond_destroy(&r->more);
    pthread_mutex_destroy(&r->lock);
    free(r);
    l->device[device].report = NULL;
}
