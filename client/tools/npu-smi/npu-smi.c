/*
 * npu-smi: what programs call that look for the NPUs of a host, in the shape that they look for.
 * Every user may ask: the answers come through the library, as those of any program. npuctl tells
 * more, but most of it to administrators only.
 */
#include <acl/acl.h>

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/tools/npu-smi/process.h"
#include "proto/util/lift_fd.h"

#define MB (1024 * 1024)

struct npu {
    int id;
    const char *health;
    bool has_memory; /* false: it cannot be brought up, so nothing tells how much is in use */
    size_t used_mb;
    size_t total_mb;
    int load; /* percent of the last second; -1: not known */
    char bus_id[16];
    char uuid[2 * sizeof(aclrtUuid) + 1];
};

static void print_usage(FILE *f)
{
    fputs("Usage: npu-smi info [-l | -m | -t TYPE] [-i ID] [-c CHIP]\n"
          "       npu-smi -v | -h\n"
          "Print the NPUs that npud has, one chip each.\n"
          "\n"
          "  info            a table of the NPUs, and of the processes that use them: of all,\n"
          "                  for administrators; of the own ones, for other users\n"
          "  info -l         how many there are, and their ids\n"
          "  info -m         ids and names of their chips\n"
          "  info -t TYPE    of each NPU: board, health, memory or usages\n"
          "  -i ID           of this NPU only\n"
          "  -c CHIP         of this chip, which is 0\n"
          "  -v              print the version and exit\n"
          "  -h              print this and exit\n"
          "\n"
          "NA: simulated NPUs have none of it. npud is found as by any program: NPUD_SOCKET, or\n"
          "the socket of the host. ASCEND_RT_VISIBLE_DEVICES hides nothing here. npuctl(1) tells\n"
          "which process holds what.\n"
          "\n"
          "Exit status: 0 printed; 1 no npud answers, no such NPU, or wrong usage.\n",
          f);
}

/* False, as the others that have said what is wrong. */
static bool report_failure(void)
{
    const char *sentence = aclGetRecentErrMsg();

    fprintf(stderr, "npu-smi: %s\n", sentence ? sentence : "the library gives no reason");
    return false;
}

static bool refuse_usage(const char *what, const char *about)
{
    fprintf(stderr, "npu-smi: %s \"%s\"\nTry 'npu-smi -h'.\n", what, about);
    return false;
}

/* The vendor's name of a chip is "Ascend" and this, which is how scripts know the chip. */
static const char *chip_name(const char **brand)
{
    const char *name = aclrtGetSocName();
    bool ascend = name && strncmp(name, "Ascend", 6) == 0;

    if (brand)
        *brand = ascend ? "Ascend " : "";
    return !name ? "NA" : ascend ? name + 6 : name;
}

static void npu_read(int id, struct npu *npu)
{
    aclrtUtilizationInfo load = {0};
    aclrtDeviceStatus status;
    aclrtUuid uuid;
    size_t free_bytes, total;

    *npu = (struct npu){.id = id, .health = "OK", .load = -1, .bus_id = "NA", .uuid = "NA"};
    if (aclrtQueryDeviceStatus(id, &status) != ACL_SUCCESS || status != ACL_RT_DEVICE_STATUS_NORMAL)
        npu->health = "Critical";
    if (aclrtGetDeviceUtilizationRate(id, &load) == ACL_SUCCESS)
        npu->load = load.cubeUtilization;
    if (aclrtDeviceGetPCIBusId(id, npu->bus_id, sizeof(npu->bus_id)) != ACL_SUCCESS)
        strcpy(npu->bus_id, "NA");
    if (aclrtDeviceGetUuid(id, &uuid) == ACL_SUCCESS)
        for (size_t i = 0; i < sizeof(uuid); i++)
            sprintf(npu->uuid + 2 * i, "%02x", (uint8_t)uuid.bytes[i]);
    if (aclrtSetDevice(id) != ACL_SUCCESS)
        return;
    npu->has_memory = aclrtGetMemInfo(ACL_HBM_MEM, &free_bytes, &total) == ACL_SUCCESS;
    if (npu->has_memory) {
        npu->used_mb = (total - free_bytes) / MB;
        npu->total_mb = total / MB;
    }
    aclrtResetDevice(id);
}

/* --- one line each --- */

static void print_text(const char *key, const char *value)
{
    printf("\t%-30s : %s\n", key, value);
}

static void print_number(const char *key, size_t value)
{
    printf("\t%-30s : %zu\n", key, value);
}

/* --- info -t --- */

static void print_board(const struct npu *npu)
{
    print_text("Product Name", "NPU of npud");
    print_text("Serial Number", npu->uuid);
    print_text("Software Version", NPUD_VERSION);
    print_text("Firmware Version", "NA");
    print_text("Chip Name", chip_name(NULL));
}

static void print_health(const struct npu *npu)
{
    print_text("Health Status", npu->health);
}

static void print_capacity(const struct npu *npu)
{
    if (npu->has_memory)
        print_number("HBM Capacity(MB)", npu->total_mb);
    else
        print_text("HBM Capacity(MB)", "NA");
}

static void print_memory(const struct npu *npu)
{
    print_text("DDR Capacity(MB)", "NA");
    print_capacity(npu);
    print_text("HBM Clock Speed(MHz)", "NA");
    print_text("HBM Temperature(C)", "NA");
}

static void print_usages(const struct npu *npu)
{
    print_text("DDR Capacity(MB)", "NA");
    print_text("DDR Usage Rate(%)", "NA");
    print_capacity(npu);
    if (npu->total_mb > 0)
        print_number("HBM Usage Rate(%)", npu->used_mb * 100 / npu->total_mb);
    else
        print_text("HBM Usage Rate(%)", "NA");
    if (npu->load >= 0)
        print_number("Aicore Usage Rate(%)", (size_t)npu->load);
    else
        print_text("Aicore Usage Rate(%)", "NA");
    print_number("Aicpu Usage Rate(%)", 0);
    print_text("Ctrlcpu Usage Rate(%)", "NA");
    print_text("HBM Bandwidth Usage Rate(%)", "NA");
}

static const struct type {
    const char *name;
    void (*print)(const struct npu *npu);
} types[] = {
    {"board", print_board},
    {"health", print_health},
    {"memory", print_memory},
    {"usages", print_usages},
};

static const struct type *type_find(const char *name)
{
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (strcmp(types[i].name, name) == 0)
            return &types[i];
    return NULL;
}

static void print_types(const struct type *type, int first, int end)
{
    struct npu npu;

    for (int id = first; id < end; id++) {
        npu_read(id, &npu);
        print_number("NPU ID", (size_t)id);
        print_number("Chip Count", 1);
        puts("");
        type->print(&npu);
        print_number("Chip ID", 0);
        puts("");
    }
}

/* --- info -l, -m, and info alone --- */

static void print_list(int first, int end)
{
    print_number("Total Count", (size_t)(end - first));
    for (int id = first; id < end; id++) {
        puts("");
        print_number("NPU ID", (size_t)id);
        print_number("Chip Count", 1);
    }
}

static void print_map(int first, int end)
{
    const char *brand, *chip = chip_name(&brand);

    printf("\t%-30s %-30s %-30s %s\n", "NPU ID", "Chip ID", "Chip Logic ID", "Chip Name");
    for (int id = first; id < end; id++)
        printf("\t%-30d %-30d %-30d %s%s\n", id, 0, id, brand, chip);
}

#define LINE_HEAD "+---------------------------+---------------+"
#define LINE_TAIL "----------------------------------------------------+\n"
#define LINE_BOLD "+===========================+===============+"
#define LINE_END  "====================================================+\n"

/* Below the NPUs, in the shape of the vendor's tool. */
static void print_processes(int first, int end)
{
    struct processes *all = processes_read();

    printf(LINE_HEAD LINE_TAIL);
    printf("| %-8s%-18s| %-14s| %-25s| %-24s|\n" LINE_BOLD LINE_END, "NPU", "Chip", "Process id",
           "Process name", "Process memory(MB)");
    for (int id = first; id < end; id++) {
        processes_print(all, id);
        printf(LINE_BOLD LINE_END);
    }
    processes_free(all);
}

static void print_table(int first, int end)
{
    char hbm[44] = "NA", load[12];
    struct npu npu;

    printf("+----------------------------------------------------------------------------------"
           "--------------+\n"
           "| npu-smi %-23s  Version: %-52s |\n" LINE_HEAD LINE_TAIL,
           NPUD_VERSION, NPUD_VERSION);
    printf("| %-6s%-20s| %-14s| %-12s%-18s%-21s|\n", "NPU", "Name", "Health", "Power(W)", "Temp(C)",
           "Hugepages-Usage(page)");
    printf("| %-26s| %-14s| %-12s%-18s%-21s|\n" LINE_BOLD LINE_END, "Chip", "Bus-Id", "AICore(%)",
           "Memory-Usage(MB)", "HBM-Usage(MB)");
    for (int id = first; id < end; id++) {
        npu_read(id, &npu);
        if (npu.has_memory)
            snprintf(hbm, sizeof(hbm), "%zu / %zu", npu.used_mb, npu.total_mb);
        else
            strcpy(hbm, "NA");
        printf("| %-6d%-20s| %-14s| %-12s%-18s%-21s|\n", id, chip_name(NULL), npu.health, "NA",
               "NA", "NA");
        if (npu.load >= 0)
            snprintf(load, sizeof(load), "%d", npu.load);
        else
            strcpy(load, "NA");
        printf("| %-26d| %-14s| %-12s%-18s%-21s|\n" LINE_BOLD LINE_END, 0, npu.bus_id, load, "NA",
               hbm);
    }
    print_processes(first, end);
}

/* --- */

struct question {
    const struct type *type;
    char what; /* 0: the table, else l, m or t */
    const char *id;
};

static bool parse_info(int argc, char **argv, struct question *question)
{
    int c;

    opterr = 0;
    while ((c = getopt(argc, argv, ":lmt:i:c:")) != -1) {
        switch (c) {
        case 't':
            question->type = type_find(optarg);
            if (!question->type)
                return refuse_usage("there is no type", optarg);
            /* fall through */
        case 'l':
        case 'm':
            question->what = (char)c;
            break;
        case 'i':
            question->id = optarg;
            break;
        case 'c':
            if (strcmp(optarg, "0") != 0)
                return refuse_usage("an NPU has the chip 0, and no chip", optarg);
            break;
        case ':':
            return refuse_usage("a value is missing after", argv[optind - 1]);
        default:
            return refuse_usage("info takes no option", argv[optind - 1]);
        }
    }
    if (optind < argc)
        return refuse_usage("info takes no argument", argv[optind]);
    return true;
}

/* The numbers from *first to below *end are asked for. */
static bool range_choose(const char *id, int *first, int *end)
{
    uint32_t count;
    char *rest;
    long number;

    if (aclrtGetDeviceCount(&count) != ACL_SUCCESS)
        return report_failure();
    *first = 0;
    *end = (int)count;
    if (!id)
        return true;
    number = strtol(id, &rest, 10);
    if (rest == id || *rest || number < 0 || number >= (long)count)
        return refuse_usage("npud has no NPU", id);
    *first = (int)number;
    *end = *first + 1;
    return true;
}

static bool print_info(int argc, char **argv)
{
    struct question question = {0};
    int first, end;

    if (argc > 1 && (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0)) {
        print_usage(stdout);
        return true;
    }
    if (!parse_info(argc, argv, &question) || !range_choose(question.id, &first, &end))
        return false;
    switch (question.what) {
    case 'l':
        print_list(first, end);
        break;
    case 'm':
        print_map(first, end);
        break;
    case 't':
        print_types(question.type, first, end);
        break;
    default:
        print_table(first, end);
    }
    return true;
}

int main(int argc, char **argv)
{
    const char *command = argc > 1 ? argv[1] : "-h";
    bool done = true;

    occupy_standard_fds();
    unsetenv("ASCEND_RT_VISIBLE_DEVICES"); /* the NPUs of the host, not those of a program */
    if (strcmp(command, "info") == 0)
        done = print_info(argc - 1, argv + 1);
    else if (strcmp(command, "-v") == 0 || strcmp(command, "--version") == 0)
        puts("npu-smi version: " NPUD_VERSION);
    else if (strcmp(command, "-h") == 0 || strcmp(command, "--help") == 0)
        print_usage(stdout);
    else
        done = refuse_usage("there is no command", command);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "npu-smi: cannot write: %s\n", strerror(errno));
        done = false;
    }
    return done ? EXIT_SUCCESS : EXIT_FAILURE;
}
