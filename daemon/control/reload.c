#include "daemon/control/reload.h"

#include <stddef.h>
#include <stdlib.h>

#include "daemon/base/config.h"
#include "daemon/base/log.h"
#include "daemon/base/message_id.h"
#include "daemon/base/service_manager.h"
#include "daemon/base/options.h"
#include "daemon/core/server.h"
#include "daemon/kept/config_text.h"

#define END_MS 1000 /* for a file that answers late */

static bool reload_run(struct job *job)
{
    struct reload *reload = (struct reload *)job; /* its first member */
    struct config *read = reload->read;
    unsigned restart;

    if (read) {
        /* For users that come from now on. */
        subuids_deinit(&reload->server->subuids);
        reload->server->subuids = reload->subuids;
        restart = config_adopt(reload->server->config, read);
        server_configure(reload->server);
        config_text_keep(reload->server->config);
        log_event(MESSAGE_CONFIG_READ, LOG_NOTICE, NULL, "the configuration was read again%s",
                  restart ? "; some changes wait for the next start" : "");
        config_deinit(read);
        free(read);
    } else {
        log_event(MESSAGE_CONFIG_WRONG, LOG_ERR, NULL,
                  "the configuration that was read again is wrong: the one before stays in force");
    }
    service_manager_tell("READY=1");
    reload->read = NULL;
    reload->running = false;
    if (reload->again)
        reload_begin(reload, reload->server, reload->options);
    return false;
}

static enum errand_end reload_read(struct errand *errand)
{
    struct reload *reload = (struct reload *)((char *)errand - offsetof(struct reload, errand));
    struct config *config = malloc(sizeof(*config));

    if (config && options_load_config(reload->options, config) < 0) {
        config_deinit(config);
        free(config);
        config = NULL;
    }
    /* As the configuration in force has it: the key takes effect at the next start. */
    if (config)
        subuids_read(&reload->subuids, reload->server->config->subuid_file);
    reload->read = config;
    job_send(&reload->job);
    return ERRAND_GONE;
}

static struct worker reader = WORKER("reload", reload_read);

void reload_begin(struct reload *reload, struct server *server, const struct options *options)
{
    reload->again = reload->running;
    if (reload->running)
        return;
    reload->job = (struct job){reload_run, "take over configuration", &server->schedule.own};
    reload->server = server;
    reload->options = options;
    reload->running = true;
    service_manager_tell("RELOADING=1");
    if (worker_start(&reader) < 0 || !worker_put(&reader, &reload->errand)) {
        log_error("the configuration cannot be read again: no thread can be started");
        service_manager_tell("READY=1");
        reload->running = false;
    }
}

void reload_end(void)
{
    worker_stop_within(&reader, END_MS);
}
