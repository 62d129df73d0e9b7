#include "client/tools/npu-smi/process.h"

#include <cjson/cJSON.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/tools/npuctl/helper.h"
#include "client/tools/npuctl/text.h"
#include "client/tools/npuctl/json.h"
#include "proto/util/lift_fd.h"

#define MB    (1024 * 1024)
#define NAMED 24 /* columns of a name */

struct process {
    double session, pid; /* as JSON has numbers: exact up to 2^53 */
    const char *name;    /* of the report */
    bool uses;           /* the NPU that is asked about */
    double bytes;        /* of its memory */
};

struct processes {
    cJSON *sessions, *streams, *memory; /* reports of npuctl */
    size_t n;
    struct process process[];
};

/* --- asking npuctl --- */

/* Beside the toolkit tree, where it is installed and where it is built; else that of PATH. */
static const char *find_npuctl(char path[PATH_MAX])
{
    static const char *const places[] = {"/../../../../bin/npuctl", "/../npuctl"};
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    char *slash;

    self[n < 0 ? 0 : n] = '\0';
    slash = strrchr(self, '/');
    for (size_t i = 0; slash && i < sizeof(places) / sizeof(places[0]); i++) {
        *slash = '\0';
        if (snprintf(path, PATH_MAX, "%s%s", self, places[i]) < PATH_MAX && access(path, X_OK) == 0)
            return path;
    }
    return "npuctl";
}

/* It is a line. One before it says to ordinary users that the report is of their own processes. */
static cJSON *parse_file(int fd)
{
    struct stat is;
    char *text = fstat(fd, &is) == 0 ? calloc(1, (size_t)is.st_size + 1) : NULL;
    char *line = text, *end;
    cJSON *document = NULL;

    if (text && pread(fd, text, (size_t)is.st_size, 0) == is.st_size) {
        while (*line != '{' && (end = strchr(line, '\n')))
            line = end + 1;
        document = cJSON_Parse(line);
    }
    free(text);
    return document;
}

/* The list of that name. NULL: npud does not tell. */
static cJSON *ask_report(const char *name)
{
    char path[PATH_MAX];
    char *argv[] = {(char *)find_npuctl(path), (char *)"--json", (char *)name, NULL};
    int fd = lift_fd(memfd_create("npu-smi", MFD_CLOEXEC));
    cJSON *document = NULL, *list;

    if (fd >= 0 && helper_run(argv, -1, fd) == 0)
        document = parse_file(fd);
    if (fd >= 0)
        close(fd);
    list = cJSON_DetachItemFromObject(document, name);
    cJSON_Delete(document);
    return list;
}

/* --- what it has told --- */

static struct process *find_process(struct processes *all, const cJSON *row)
{
    double session = json_number(row, "session");

    for (size_t i = 0; i < all->n; i++)
        if (all->process[i].session == session)
            return &all->process[i];
    return NULL;
}

/* True if this process is among them. */
static bool list_processes(struct processes *all)
{
    const cJSON *row;
    bool found = false;

    cJSON_ArrayForEach (row, all->sessions) {
        double pid = json_number(row, "pid");

        if (pid == (double)getpid())
            found = true;
        else
            all->process[all->n++] = (struct process){.session = json_number(row, "session"),
                                                      .pid = pid,
                                                      .name = json_text(row, "program")};
    }
    return found;
}

struct processes *processes_read(void)
{
    cJSON *sessions = ask_report("sessions");
    size_t n = sessions ? (size_t)cJSON_GetArraySize(sessions) : 0;
    struct processes *all = sessions ? calloc(1, sizeof(*all) + n * sizeof(all->process[0])) : NULL;

    if (!all) {
        cJSON_Delete(sessions);
        return NULL;
    }
    all->sessions = sessions;
    all->streams = ask_report("streams");
    all->memory = ask_report("memory");
    if (all->streams && all->memory && list_processes(all))
        return all;
    processes_free(all);
    return NULL;
}

void processes_free(struct processes *all)
{
    if (!all)
        return;
    cJSON_Delete(all->sessions);
    cJSON_Delete(all->streams);
    cJSON_Delete(all->memory);
    free(all);
}

/* Memory that was imported is the exporter's. */
static void choose_npu(struct processes *all, int npu)
{
    const cJSON *row;
    struct process *p;

    for (size_t i = 0; i < all->n; i++)
        all->process[i].uses = false, all->process[i].bytes = 0;
    cJSON_ArrayForEach (row, all->streams)
        if (json_number(row, "device") == npu && (p = find_process(all, row)))
            p->uses = true;
    cJSON_ArrayForEach (row, all->memory) {
        if (json_number(row, "device") != npu || strcmp(json_text(row, "kind"), "host") == 0 ||
            !(p = find_process(all, row)))
            continue;
        p->uses = true;
        if (strcmp(json_text(row, "role"), "imported") != 0)
            p->bytes += json_number(row, "size");
    }
}

/*
 * Programs choose their names: without a locale all but ASCII is escaped, and nothing looks like a
 * further column.
 */
static void print_process(const struct process *p, int npu)
{
    int width;
    char *name = text_escape(p->name, true, &width);

    for (char *c = name; c && (c = strchr(c, '|'));)
        *c = '?';
    printf("| %-8d%-18d| %-14.0f| %-25.*s| %-24.0f|\n", npu, 0, p->pid, NAMED, name ? name : "",
           p->bytes / MB);
    free(name);
}

void processes_print(struct processes *all, int npu)
{
    bool any = false;
    char line[96];

    if (!all) {
        printf("| %-95s|\n", "npud does not tell which processes run: npuctl sessions says why");
        return;
    }
    choose_npu(all, npu);
    for (size_t i = 0; i < all->n; i++) {
        if (all->process[i].uses)
            print_process(&all->process[i], npu);
        any |= all->process[i].uses;
    }
    snprintf(line, sizeof(line), "No running processes found in NPU %d", npu);
    if (!any)
        printf("| %-95s|\n", line);
}
