/* Exception dumps: what a program saves of its tensors, into files and in pieces. */
#include <acl/acl_dump.h>
#include <acl/acl_npud.h>

#include <glob.h>
#include <string.h>
#include <sys/stat.h>

#include "expect.h"

#define BIG (3 << 20)

static char root[] = "/tmp/dump_XXXXXX";
static char config[64];

static void write_config(const char *text)
{
    FILE *f = fopen(config, "w");

    EXPECT(f);
    fprintf(f, text, root);
    fclose(f);
}

/* The one file that matches, and its size. */
static char *read_saved(const char *name, size_t *size)
{
    char pattern[256];
    struct stat st;
    glob_t found;
    char *bytes;
    FILE *f;

    snprintf(pattern, sizeof(pattern), "%s/extra-info/data-dump/0/%s.custom.*", root, name);
    EXPECT(glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc == 1);
    EXPECT(stat(found.gl_pathv[0], &st) == 0);
    *size = (size_t)st.st_size;
    bytes = malloc(*size + 1);
    f = fopen(found.gl_pathv[0], "r");
    EXPECT(f && fread(bytes, 1, *size, f) == *size);
    bytes[*size] = '\0';
    fclose(f);
    globfree(&found);
    return bytes;
}

/* The bytes of part `n` of a dump, from 0: behind its line of JSON, which names their number. */
static const char *find_part(const char *at, int n, size_t *size)
{
    const char *line;

    for (;; n--) {
        line = at;
        at = strchr(at, '\n') + 1;
        EXPECT(sscanf(strstr(line, "\"bytes\":"), "\"bytes\":%zu", size) == 1);
        if (n == 0)
            return at;
        at += *size + 1;
    }
}

static acldumpTensorInfo tensor_at(void *address, size_t size, acldumpTensorPlacement placement)
{
    acldumpTensorInfo t = {.type = ACL_DUMP_TENSOR_INPUT,
                           .tensorSize = size,
                           .dataType = ACL_UINT8,
                           .format = ACL_FORMAT_ND,
                           .tensorAddr = address,
                           .placement = placement,
                           .shapeNum = 1};

    t.shape[0] = (int64_t)size;
    return t;
}

static void save_to_file(void *device, void *where)
{
    unsigned char host[16];
    acldumpTensorInfo tensors[4];
    const char *part;
    char *saved;
    size_t size, n;

    memset(host, 7, sizeof(host));
    tensors[0] = tensor_at(device, BIG, ACL_DUMP_PLACEMENT_DEVICE);
    tensors[1] = tensor_at(host, sizeof(host), ACL_DUMP_PLACEMENT_HOST);
    tensors[2] = tensor_at((void *)8, 64, ACL_DUMP_PLACEMENT_HOST); /* nothing is there */
    tensors[3] = tensor_at(where, 32, ACL_DUMP_PLACEMENT_DEVICE);
    tensors[3].addrType = ACL_DUMP_ADDR_PTR_PTR; /* device memory that has the address */
    CALL(acldumpSaveExceptionInfo("file", "my operator", tensors, 4));
    saved = read_saved("file", &size);
    EXPECT(strstr(saved, "my operator"));
    part = find_part(saved, 1, &n);
    EXPECT(n == BIG && part[0] == 5 && part[BIG - 1] == 5);
    part = find_part(saved, 2, &n);
    EXPECT(n == sizeof(host) && memcmp(part, host, n) == 0);
    find_part(saved, 3, &n);
    EXPECT(n == 0);
    part = find_part(saved, 4, &n);
    EXPECT(n == 32 && part[31] == 5 && part + n + 1 == saved + size);
    free(saved);
}

static struct {
    int pieces, last;
    int64_t bytes;
    int32_t answer;
    char name[ACL_DUMP_MAX_FILE_PATH_LENGTH];
} taken;

static int32_t take_piece(const acldumpChunk *piece, int32_t size)
{
    EXPECT(size == (int32_t)(sizeof(*piece) + piece->bufLen));
    EXPECT(piece->offset == taken.bytes && !taken.last);
    EXPECT(taken.pieces == 0 || strcmp(piece->fileName, taken.name) == 0);
    strcpy(taken.name, piece->fileName);
    taken.pieces++;
    taken.bytes += piece->bufLen;
    taken.last = (int)piece->isLastChunk;
    return taken.answer;
}

static void save_in_pieces(void *device)
{
    acldumpTensorInfo t = tensor_at(device, BIG, ACL_DUMP_PLACEMENT_DEVICE);
    glob_t found;
    char pattern[256];

    FAILS(ACL_ERROR_FAILURE, acldumpRegCallback(NULL, 0));
    FAILS(ACL_ERROR_FAILURE, acldumpRegCallback(take_piece, 1));
    CALL(acldumpRegCallback(take_piece, 0));
    CALL(acldumpSaveExceptionInfo("pieces", NULL, &t, 1));
    EXPECT(taken.pieces == 4 && taken.last && taken.bytes > BIG);
    EXPECT(strstr(taken.name, "/extra-info/data-dump/0/pieces.custom."));
    memset(&taken, 0, sizeof(taken));
    taken.answer = 1; /* not taken: no more comes */
    FAILS(ACL_ERROR_FAILURE, acldumpSaveExceptionInfo("pieces", NULL, &t, 1));
    EXPECT(taken.pieces == 1);
    acldumpUnregCallback();
    snprintf(pattern, sizeof(pattern), "%s/extra-info/data-dump/0/pieces*", root);
    EXPECT(glob(pattern, 0, NULL, &found) == GLOB_NOMATCH);
}

static void *of_failure; /* device memory */

static void save_in_callback(aclrtExceptionInfo *info)
{
    acldumpTensorInfo t = tensor_at(of_failure, BIG, ACL_DUMP_PLACEMENT_DEVICE);

    EXPECT(aclrtGetErrorCodeFromExceptionInfo(info) == ACL_ERROR_RT_AICORE_EXCEPTION);
    CALL(acldumpSaveExceptionInfo("callback", "op", &t, 1));
}

/* What it is for: a callback saves what a failed task has worked on. */
static void save_after_failure(void *device)
{
    const char *part;
    char *saved;
    size_t size, n;

    of_failure = device;
    CALL(aclrtSetExceptionInfoCallback(save_in_callback));
    CALL(aclnpudLaunchDelay(0, ACL_ERROR_RT_AICORE_EXCEPTION, NULL));
    FAILS(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(NULL));
    CALL(aclrtSetExceptionInfoCallback(NULL));
    saved = read_saved("callback", &size);
    part = find_part(saved, 1, &n);
    EXPECT(n == BIG && part[BIG - 1] == 5);
    free(saved);
}

static void try_arguments(void *device)
{
    acldumpTensorInfo t = tensor_at(device, 8, ACL_DUMP_PLACEMENT_DEVICE);
    char path[256], expected[256];

    FAILS(ACL_ERROR_INVALID_PARAM, acldumpSaveExceptionInfo(NULL, "op", &t, 1));
    FAILS(ACL_ERROR_INVALID_PARAM, acldumpSaveExceptionInfo("", "op", &t, 1));
    FAILS(ACL_ERROR_INVALID_PARAM, acldumpSaveExceptionInfo("../up", "op", &t, 1));
    FAILS(ACL_ERROR_INVALID_PARAM, acldumpSaveExceptionInfo("x", "op", NULL, 1));
    FAILS(ACL_ERROR_INVALID_PARAM, acldumpSaveExceptionInfo("x", "op", &t, 0));
    FAILS(ACL_ERROR_INVALID_PARAM, acldumpGetExceptionInfoPath(NULL, 100));
    FAILS(ACL_ERROR_INVALID_PARAM, acldumpGetExceptionInfoPath(path, 1));
    FAILS(ACL_ERROR_INVALID_PARAM, acldumpGetExceptionInfoPath(path, 20));
    snprintf(expected, sizeof(expected), "%s/extra-info/data-dump/0/", root);
    CALL(acldumpGetExceptionInfoPath(path, strlen(expected) + 1));
    EXPECT(strcmp(path, expected) == 0);
    FAILS(ACL_ERROR_INVALID_PARAM, acldumpGetExceptionInfoPath(path, strlen(expected)));
    EXPECT(strcmp(acldumpGetPath(AIC_ERR_NORM_DUMP), root) == 0);
    EXPECT(!acldumpGetPath(AIC_ERR_BRIEF_DUMP) && !acldumpGetPath(DATA_DUMP));
    EXPECT(!acldumpGetPath((acldumpType)0) && !acldumpGetPath((acldumpType)6));
}

static void off(void *device)
{
    acldumpTensorInfo t = tensor_at(device, 8, ACL_DUMP_PLACEMENT_DEVICE);
    char path[256];

    FAILS(ACL_ERROR_FAILURE, acldumpSaveExceptionInfo("x", "op", &t, 1));
    FAILS(ACL_ERROR_FAILURE, acldumpGetExceptionInfoPath(path, sizeof(path)));
    EXPECT(!acldumpGetPath(AIC_ERR_NORM_DUMP));
}

/* Dumps of arguments are begun and ended. */
static void try_args(void)
{
    char path[64];

    snprintf(path, sizeof(path), "%s/args/below", root);
    FAILS(ACL_ERROR_FAILURE, aclopStartDumpArgs(ACL_OP_DUMP_OP_AICORE_ARGS, NULL));
    FAILS(ACL_ERROR_FAILURE, aclopStartDumpArgs(2, path));
    FAILS(ACL_ERROR_FAILURE, aclopStartDumpArgs(ACL_OP_DUMP_OP_AICORE_ARGS, "/proc/none"));
    CALL(aclopStopDumpArgs(ACL_OP_DUMP_OP_AICORE_ARGS));
    CALL(aclopStartDumpArgs(ACL_OP_DUMP_OP_AICORE_ARGS, path));
    EXPECT(access(path, W_OK) == 0);
    FAILS(ACL_ERROR_FAILURE, aclopStartDumpArgs(ACL_OP_DUMP_OP_AICORE_ARGS, path));
    CALL(aclopStopDumpArgs(0));
    FAILS(ACL_ERROR_FAILURE, aclopStartDumpArgs(ACL_OP_DUMP_OP_AICORE_ARGS, path));
    CALL(aclopStopDumpArgs(ACL_OP_DUMP_OP_AICORE_ARGS));
    CALL(aclopStartDumpArgs(ACL_OP_DUMP_OP_AICORE_ARGS, path));
    CALL(aclopStopDumpArgs(ACL_OP_DUMP_OP_AICORE_ARGS));
}

int main(void)
{
    char command[64];
    void *device, *where;

    EXPECT(mkdtemp(root));
    snprintf(config, sizeof(config), "%s/acl.json", root);
    write_config("{\"dump\": {\"dump_scene\": \"aic_err_norm_dump\", \"dump_path\": \"%s\"}}");
    CALL(aclInit(config));
    CALL(aclrtSetDevice(0));
    CALL(aclrtMalloc(&device, BIG, ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtMalloc(&where, 64, ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtMemset(device, BIG, 5, BIG));
    CALL(aclrtMemcpy(where, 8, &device, 8, ACL_MEMCPY_HOST_TO_DEVICE));
    try_arguments(device);
    save_to_file(device, where);
    save_in_pieces(device);
    save_after_failure(device);
    try_args();

    FAILS(ACL_ERROR_DUMP_NOT_RUN, aclmdlFinalizeDump());
    CALL(aclmdlInitDump());
    CALL(aclmdlFinalizeDump()); /* all dumping */
    off(device);
    CALL(aclrtFree(where));
    CALL(aclrtFree(device));
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
    snprintf(command, sizeof(command), "rm -rf %s", root);
    return system(command) != 0;
}
