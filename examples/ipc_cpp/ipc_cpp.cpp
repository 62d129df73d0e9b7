// An IPC event between two processes in C++, with acl/npud_event_ipc.hpp. The producer works on
// device 0 and records; the consumer's stream on device 1 goes on when that is done, and answers
// with a record of its own on the same event.
#include <acl/npud_event_ipc.hpp>

#include <cstdio>
#include <cstdlib>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ipc = npud::event::ipc;
using npud::throw_if_error;

namespace
{

// What a process has of npud: its device, and a stream there.
class npu
{
  public:
    explicit npu(npud::device::id_t device) : device_(device)
    {
        throw_if_error(aclInit(nullptr), "aclInit");
        throw_if_error(aclrtSetDevice(device), "aclrtSetDevice");
        throw_if_error(aclrtCreateStream(&stream_), "aclrtCreateStream");
    }
    npu(const npu &) = delete;
    npu &operator=(const npu &) = delete;
    ~npu()
    {
        aclrtDestroyStream(stream_);
        aclrtResetDevice(device_);
        aclFinalize();
    }

    npud::stream::handle_t stream() const
    {
        return stream_;
    }

    void work(unsigned microseconds) const
    {
        throw_if_error(aclnpudLaunchDelay(microseconds, ACL_SUCCESS, stream_),
                       "aclnpudLaunchDelay");
    }

    void synchronize() const
    {
        throw_if_error(aclrtSynchronizeStream(stream_), "aclrtSynchronizeStream");
    }

  private:
    npud::device::id_t device_;
    npud::stream::handle_t stream_ = nullptr;
};

template <class T> void send(int to, const T &value)
{
    if (write(to, &value, sizeof(value)) != static_cast<ssize_t>(sizeof(value)))
        throw std::runtime_error("the other process has gone");
}

template <class T> T receive(int from)
{
    T value;
    if (read(from, &value, sizeof(value)) != static_cast<ssize_t>(sizeof(value)))
        throw std::runtime_error("the other process has gone");
    return value;
}

void producer(int peer)
{
    npu device(0);
    npud::event_t event = ipc::create();

    device.work(50000);
    event.record(device.stream());
    send(peer, ipc::export_(event)); // after the record: the consumer waits for this one
    receive<char>(peer);             // the answer has been recorded ...
    event.synchronize();             // ... and is complete
    std::puts("producer: the consumer has answered");
}

void consumer(int peer)
{
    npu device(1);
    const auto handle = receive<ipc::handle_t>(peer);
    const auto info = ipc::info(handle);
    npud::event_t event = ipc::import(1, handle);

    std::printf("consumer: an event of device %d, exported by a process that %s\n", info.device,
                info.exporter_alive ? "lives" : "has gone");
    event.enqueue_wait(device.stream());
    device.work(10000); // begins when the producer's work is done
    event.record(device.stream());
    send(peer, '!');
    device.synchronize();
    std::puts("consumer: done");
}

int run(void (*role)(int), int peer)
{
    try {
        role(peer);
        return EXIT_SUCCESS;
    } catch (const npud::error &e) {
        std::fprintf(stderr, "ipc_cpp: error %d: %s\n", e.code(), e.what());
    } catch (const std::exception &e) {
        std::fprintf(stderr, "ipc_cpp: %s\n", e.what());
    }
    return EXIT_FAILURE;
}

} // namespace

int main()
{
    int pair[2], status = 1;

    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    // Fork first, and use the library after.
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) < 0)
        return EXIT_FAILURE;
    const pid_t child = fork();
    if (child < 0)
        return EXIT_FAILURE;
    close(pair[child == 0 ? 0 : 1]);
    if (child == 0)
        return run(consumer, pair[1]);
    const int mine = run(producer, pair[0]);
    close(pair[0]); // should the consumer still wait for something, it does not any more
    if (waitpid(child, &status, 0) != child || status != 0 || mine != 0) {
        std::puts("ipc_cpp: FAILED");
        return EXIT_FAILURE;
    }
    std::puts("ipc_cpp: OK");
    return EXIT_SUCCESS;
}
