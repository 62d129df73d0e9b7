/* Device memory by a descriptor that goes over a socket: no key, no list of pids. */
#include "expect.h"

#include <acl/acl_npud.h>
#include <string.h>
#include <sys/socket.h>

static void pass_fd(int socket, int fd)
{
    char room[CMSG_SPACE(sizeof(int))] = {0}, byte = 0;
    struct iovec data = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);

    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(fd));
    memcpy(CMSG_DATA(head), &fd, sizeof(fd));
    EXPECT(sendmsg(socket, &message, 0) == 1);
}

static int take_fd(int socket)
{
    char room[CMSG_SPACE(sizeof(int))], byte;
    struct iovec data = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)};
    int fd;

    EXPECT(recvmsg(socket, &message, MSG_CMSG_CLOEXEC) == 1 && CMSG_FIRSTHDR(&message));
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
    return fd;
}

static int import_there(int socket)
{
    void *memory;
    char got[32];
    int fd;

    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(1));
    fd = take_fd(socket);
    CALL(aclnpudMemImportFd(&memory, fd, ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS));
    CALL(aclrtMemcpy(got, sizeof(got), memory, sizeof(got), ACL_MEMCPY_DEVICE_TO_HOST));
    EXPECT(strcmp(got, "by descriptor") == 0);
    CALL(aclnpudMemCloseFd(fd));
    close(fd);
    CALL(aclrtResetDevice(1));
    return aclFinalize();
}

int main(void)
{
    const char text[32] = "by descriptor";
    int ends[2], fd;
    void *memory;
    pid_t child;

    EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    child = fork();
    if (child == 0)
        exit(import_there(ends[1]));
    CALL(aclInit(NULL));
    CALL(aclrtSetDevice(0));
    CALL(aclrtMalloc(&memory, sizeof(text), ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclrtMemcpy(memory, sizeof(text), text, sizeof(text), ACL_MEMCPY_HOST_TO_DEVICE));
    CALL(aclnpudMemExportFd(memory, sizeof(text), ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION,
                            &fd));
    pass_fd(ends[0], fd);
    EXPECT(ended_well(child));
    CALL(aclnpudMemCloseFd(fd));
    close(fd);
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclnpudMemImportFd(&memory, ends[0], 0));
    CALL(aclrtFree(memory));
    CALL(aclrtResetDevice(0));
    puts(text);
    return aclFinalize();
}
