#include "tests/hostile/silent_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/util/futex.h"

#define FILE_NODE 2
#define FILE_SIZE (1 << 20)

/* --- the server --- */

static void answer_request(int dev, uint64_t unique, int error, const void *body, size_t size)
{
    struct fuse_out_header head = {
        .len = (uint32_t)(sizeof(head) + size), .error = -error, .unique = unique};
    struct iovec parts[] = {{&head, sizeof(head)}, {(void *)body, size}};

    /* A request that was given up is refused: no matter. */
    if (writev(dev, parts, 2) < 0 && errno != ENOENT)
        _exit(1);
}

static struct fuse_attr attributes_of(uint64_t node)
{
    return (struct fuse_attr){
        .ino = node,
        .size = node == FILE_NODE ? FILE_SIZE : 0,
        .blocks = FILE_SIZE / 512,
        .mode = node == FILE_NODE ? S_IFREG | 0666 : S_IFDIR | 0777,
        .nlink = 1,
        .blksize = 4096,
    };
}

static void serve_request(int dev, const struct fuse_in_header *in, struct silent_file *file)
{
    struct fuse_init_out init = {.major = FUSE_KERNEL_VERSION, .minor = 31, .max_write = 4096};
    struct fuse_entry_out entry = {
        .nodeid = FILE_NODE, .entry_valid = 3600, .attr_valid = 3600, .attr = attributes_of(2)};
    struct fuse_attr_out attr = {.attr_valid = 3600, .attr = attributes_of(in->nodeid)};
    struct fuse_open_out open = {.open_flags = FOPEN_KEEP_CACHE};

    switch (in->opcode) {
    case FUSE_INIT:
        answer_request(dev, in->unique, 0, &init, sizeof(init));
        break;
    case FUSE_LOOKUP:
        answer_request(dev, in->unique, 0, &entry, sizeof(entry));
        break;
    case FUSE_GETATTR:
        answer_request(dev, in->unique, 0, &attr, sizeof(attr));
        break;
    case FUSE_OPEN:
        answer_request(dev, in->unique, 0, &open, sizeof(open));
        break;
    case FUSE_READ:
        atomic_fetch_add(file->reads, 1);
        futex_wake_all(file->reads);
        break;
    case FUSE_FLUSH:
        atomic_fetch_add(file->flushes, 1);
        break;
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT:
        break;
    case FUSE_RELEASE:
        answer_request(dev, in->unique, 0, NULL, 0);
        break;
    default:
        answer_request(dev, in->unique, ENOSYS, NULL, 0);
    }
}

/*
 * Until the test has ended, however it does: its hostile process cannot, while it waits for what is
 * not answered here.
 */
static void serve_requests(int dev, int test, struct silent_file *file)
{
    static char request[FUSE_MIN_READ_BUFFER * 2];
    struct pollfd p[] = {{.fd = dev, .events = POLLIN}, {.fd = test, .events = POLLIN}};

    while (poll(p, 2, -1) >= 0 && p[1].revents == 0) {
        ssize_t n = read(dev, request, sizeof(request));

        if (n >= (ssize_t)sizeof(struct fuse_in_header))
            serve_request(dev, (const struct fuse_in_header *)request, file);
        else if (n < 0 && errno != EINTR && errno != ENOENT && errno != EAGAIN)
            _exit(0); /* unmounted */
    }
    _exit(0);
}

/* --- the file --- */

static bool write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

    if (fd >= 0)
        close(fd);
    return ok;
}

/* Where mounts are this process's own. */
static bool enter_namespace(void)
{
    unsigned uid = geteuid(), gid = getegid();
    char text[64];

    if (uid == 0)
        return unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, "") == 0;
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
        return false;
    snprintf(text, sizeof(text), "%u %u 1", uid, uid);
    if (!write_text("/proc/self/uid_map", text) || !write_text("/proc/self/setgroups", "deny"))
        return false;
    snprintf(text, sizeof(text), "%u %u 1", gid, gid);
    return write_text("/proc/self/gid_map", text);
}

static bool mount_file_system(int dev, const char *dir)
{
    char text[128];

    snprintf(text, sizeof(text), "fd=%d,rootmode=40000,user_id=%u,group_id=%u,allow_other", dev,
             geteuid(), getegid());
    return mount("silent", dir, "fuse", MS_NOSUID | MS_NODEV, text) == 0;
}

bool silent_file_open(struct silent_file *file)
{
    char dir[] = "/tmp/npud-silent-XXXXXX", path[64];
    int dev = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    int test = (int)syscall(SYS_pidfd_open, getppid(), 0);
    _Atomic uint32_t *counts =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (dev < 0 || test < 0 || counts == MAP_FAILED || !enter_namespace() || !mkdtemp(dir))
        return false;
    file->reads = &counts[0];
    file->flushes = &counts[1];
    if (mount_file_system(dev, dir) && fork() == 0)
        serve_requests(dev, test, file);
    close(dev);
    close(test);
    snprintf(path, sizeof(path), "%s/file", dir);
    file->fd = open(path, O_RDWR | O_CLOEXEC);
    umount2(dir, MNT_DETACH);
    rmdir(dir);
    return file->fd >= 0;
}

bool silent_file_possible(void)
{
    pid_t pid = fork();
    int status = 0;

    if (pid == 0) {
        struct silent_file file;

        setpgid(0, 0);
        /* Not to end in the ordinary way: that would close the file. */
        if (silent_file_open(&file))
            kill(0, SIGKILL);
        _exit(1);
    }
    waitpid(pid, &status, 0);
    return WIFSIGNALED(status);
}
