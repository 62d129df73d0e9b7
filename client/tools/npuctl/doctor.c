#include "client/tools/npuctl/doctor.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/tools/npuctl/ask.h"
#include "client/tools/npuctl/doctor_check.h"
#include "client/tools/npuctl/print.h"
#include "client/tools/npuctl/socket.h"
#include "client/tools/npuctl/text.h"

#define SECCOMP "; in a container, allow it in its seccomp profile"

/* Names and verdicts are the keys by which programs find a check: they do not change. */
static const struct row {
    const char *name;
    check_fn *check;
    const char *cure; /* if the check says none */
} rows[] = {
    {"memory-files", check_memory_files, "memfd_create(2) with seals: Linux 3.17" SECCOMP},
    {"process-handles", check_process_handles, "pidfd_open(2): Linux 5.3" SECCOMP},
    {"barriers", check_barriers, "membarrier(2): Linux 4.14" SECCOMP},
    {"page-faults", check_page_faults, "userfaultfd(2): Linux 5.11" SECCOMP},
    {"own-memory", check_own_memory, "process_vm_readv(2)" SECCOMP},
    {"async-io", check_async_io, "sysctl -w fs.aio-max-nr=1048576"},
    {"mappings", check_mappings, "sysctl -w vm.max_map_count=262144"},
    {"descriptors", check_descriptors, "ulimit -n 1024"},
    {"configuration", check_configuration, "mend the file that the sentence names"},
    {"units", check_units, "systemctl enable --now npud.socket npud-admin.socket"},
    {"programs-socket", check_programs_socket, "journalctl -u npud"},
    {"admin-socket", check_admin_socket, "journalctl -u npud"},
    {"groups", check_groups, "log in again, or newgrp GROUP for one shell"},
    {"versions", check_versions, "npuctl upgrade"},
    {"devices", check_devices,
     "npuctl inject clear, if a rule has done it; else journalctl -u npud"},
    {"limits", check_limits, "raise its key in [limits] of npud.conf; systemctl reload npud"},
    {"npud-descriptors", check_npud_descriptors,
     "raise LimitNOFILE (systemctl edit npud), and systemctl restart npud"},
    {"library", check_library,
     "ldconfig, if it is installed; apt-get install libaclclient1, if not"},
    {"toolkit", check_toolkit, "apt-get install npud-ascend-toolkit"},
    {"cdi", check_cdi, "npuctl cdi"},
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

static const char *const verdict_names[] = {
    [VERDICT_OK] = "ok", [VERDICT_SKIP] = "skip", [VERDICT_WARN] = "warn", [VERDICT_FAIL] = "fail"};

enum verdict finding_say(struct finding *f, enum verdict verdict, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(f->seen, sizeof(f->seen), format, args);
    va_end(args);
    return verdict;
}

void finding_cure(struct finding *f, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(f->cure, sizeof(f->cure), format, args);
    va_end(args);
}

/* --- printing --- */

/* A line for what was seen, and one for what to do. False: no memory. */
static bool print_text(const struct row *row, enum verdict verdict, const struct finding *f)
{
    int width;
    char *seen = text_escape(f->seen, false, &width);
    bool ok = seen != NULL;

    if (ok)
        printf("%-4s  %-16s  %s\n", verdict_names[verdict], row->name, seen);
    if (ok && verdict != VERDICT_OK && f->cure[0])
        printf("%-4s  %-16s  to do: %s\n", "", "", f->cure);
    free(seen);
    return ok;
}

static bool add_json(cJSON *list, const struct row *row, enum verdict verdict,
                     const struct finding *f)
{
    cJSON *object = cJSON_CreateObject();
    char *seen = text_clean(f->seen), *cure = text_clean(verdict == VERDICT_OK ? "" : f->cure);
    bool ok = seen && cure && cJSON_AddItemToArray(list, object) &&
              cJSON_AddStringToObject(object, "check", row->name) &&
              cJSON_AddStringToObject(object, "verdict", verdict_names[verdict]) &&
              cJSON_AddStringToObject(object, "seen", seen) &&
              cJSON_AddStringToObject(object, "cure", cure);

    free(seen);
    free(cure);
    return ok;
}

/* --- all of it --- */

/* What npud tells this user of itself; silently, because the check of the socket says the rest. */
static void ask_host(struct host *host)
{
    const struct question questions[] = {
        {NPUD__ADMIN_REQUEST__TOPIC__STATUS, &host->status},
        {NPUD__ADMIN_REQUEST__TOPIC__DEVICES, &host->devices},
        {NPUD__ADMIN_REQUEST__TOPIC__LIMITS, &host->limits},
    };
    struct connection c = {.path = host->admin, .limit = ANSWER_LIMIT_S};

    if (connection_open(&c) < 0)
        return;
    ask_reports(&c, questions, sizeof(questions) / sizeof(questions[0]));
    connection_close(&c);
}

static void free_host(struct host *host)
{
    npud__report__free_unpacked(host->status, NULL);
    npud__report__free_unpacked(host->devices, NULL);
    npud__report__free_unpacked(host->limits, NULL);
}

static enum verdict run_row(const struct host *host, const struct row *row, struct finding *f)
{
    enum verdict verdict;

    *f = (struct finding){.seen = ""};
    verdict = row->check(host, f);
    if (!f->cure[0] && verdict >= VERDICT_WARN)
        snprintf(f->cure, sizeof(f->cure), "%s", row->cure);
    return verdict;
}

enum status doctor_run(const struct task *task)
{
    struct host host = {.admin = task->path,
                        .programs = socket_find("NPUD_SOCKET", NPUD_SOCKET_DEFAULT)};
    cJSON *document = task->json ? cJSON_CreateObject() : NULL;
    cJSON *list = document ? cJSON_AddArrayToObject(document, "doctor") : NULL;
    enum verdict worst = VERDICT_OK;
    bool ok = !task->json || list;
    enum status status;

    host.own = strcmp(host.programs, NPUD_SOCKET_DEFAULT) != 0 ||
               strcmp(host.admin, NPUD_ADMIN_SOCKET_DEFAULT) != 0;
    setlocale(LC_CTYPE, task->json ? "C.UTF-8" : "");
    ask_host(&host);
    for (size_t i = 0; ok && i < ROWS; i++) {
        struct finding f;
        enum verdict verdict = run_row(&host, &rows[i], &f);

        worst = verdict > worst ? verdict : worst;
        ok = list ? add_json(list, &rows[i], verdict, &f) : print_text(&rows[i], verdict, &f);
    }
    free_host(&host);
    if (ok && document)
        ok = print_document(document);
    else
        cJSON_Delete(document);
    status = print_end(ok);
    return status == STATUS_OK && worst == VERDICT_FAIL ? STATUS_ERROR : status;
}
