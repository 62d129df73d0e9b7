/*
 * IPC events for C++17, header-only: the shape of cuda-api-wrappers (`cuda::event::ipc`), on npud.
 *
 *     // one process
 *     auto event = npud::event::ipc::create();              // on the current device
 *     event.record(stream);
 *     npud::event::ipc::handle_t handle = npud::event::ipc::export_(event);
 *
 *     // another, with the 64 bytes
 *     auto event = npud::event::ipc::import(device, handle); // whatever is current
 *     event.enqueue_wait(stream);
 *     event.synchronize();
 *
 * Every call that fails throws npud::error with the code of AscendCL and the library's sentence.
 * Destructors never throw. Link with libaclclient.
 */
#ifndef ACL_NPUD_EVENT_IPC_HPP
#define ACL_NPUD_EVENT_IPC_HPP

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "acl_npud.h"

namespace npud
{

/** A call has failed: code() says how, what() in words. */
class error : public std::runtime_error
{
  public:
    error(aclError code, const std::string &what) : std::runtime_error(what), code_(code)
    {
    }

    aclError code() const noexcept
    {
        return code_;
    }

  private:
    aclError code_;
};

/**
 * Throw what the last call of this thread left, if result is not success. call: its name, for when
 * there is no sentence.
 */
inline void throw_if_error(aclError result, const char *call)
{
    if (result == ACL_SUCCESS)
        return;
    const char *why = aclGetRecentErrMsg();
    throw error(result, why && *why ? std::string(why)
                                    : std::string(call) + ": error " + std::to_string(result));
}

namespace device
{
using id_t = std::int32_t;
using uuid_t = aclrtUuid;

/** The same in every process and after every restart. */
inline uuid_t uuid(id_t device)
{
    uuid_t result;
    throw_if_error(aclrtDeviceGetUuid(device, &result), "aclrtDeviceGetUuid");
    return result;
}
} // namespace device

namespace context
{
using handle_t = aclrtContext;
} // namespace context

namespace stream
{
using handle_t = aclrtStream; /* nullptr: the default stream of the current context */
} // namespace stream

namespace event
{
using handle_t = aclrtEvent;
} // namespace event

/**
 * An event that this object owns: destroyed with it. Moves, does not copy; a moved-from or released
 * one is empty, and may only be assigned to, asked if it is empty, and destroyed.
 */
class event_t
{
  public:
    event_t() noexcept = default;
    /** Take over an event of the C interface. */
    explicit event_t(event::handle_t owned) noexcept : event_(owned)
    {
    }
    event_t(const event_t &) = delete;
    event_t &operator=(const event_t &) = delete;
    event_t(event_t &&other) noexcept : event_(other.release())
    {
    }

    event_t &operator=(event_t &&other) noexcept
    {
        if (this != &other)
            reset(other.release());
        return *this;
    }

    ~event_t()
    {
        reset();
    }

    event::handle_t get() const noexcept
    {
        return event_;
    }
    event::handle_t handle() const noexcept
    {
        return event_;
    }
    explicit operator bool() const noexcept
    {
        return event_ != nullptr;
    }

    /** Give the event up: the caller destroys it. */
    event::handle_t release() noexcept
    {
        return std::exchange(event_, nullptr);
    }

    /** Destroy it, and own another one or none. */
    void reset(event::handle_t owned = nullptr) noexcept
    {
        event::handle_t old = std::exchange(event_, owned);
        if (old && aclrtDestroyEvent(old) != ACL_SUCCESS)
            aclGetRecentErrMsg(); /* no later call asks for this sentence */
    }

    friend void swap(event_t &a, event_t &b) noexcept
    {
        std::swap(a.event_, b.event_);
    }

    /** Capture what the stream has been given so far. */
    void record(stream::handle_t stream = nullptr) const
    {
        throw_if_error(aclrtRecordEvent(event_, stream), "aclrtRecordEvent");
    }

    /** What the stream is given from now on runs after the latest record. */
    void enqueue_wait(stream::handle_t stream = nullptr) const
    {
        throw_if_error(aclrtStreamWaitEvent(stream, event_), "aclrtStreamWaitEvent");
    }
    void wait(stream::handle_t stream = nullptr) const
    {
        enqueue_wait(stream);
    }

    /** Is the latest record complete? Also true before the first one. Throws when it has failed. */
    bool query() const
    {
        aclrtEventRecordedStatus status;
        throw_if_error(aclrtQueryEventStatus(event_, &status), "aclrtQueryEventStatus");
        return status == ACL_EVENT_RECORDED_STATUS_COMPLETE;
    }
    bool has_occurred() const
    {
        return query();
    }

    /** Block this thread until the latest record is complete. */
    void synchronize() const
    {
        throw_if_error(aclrtSynchronizeEvent(event_), "aclrtSynchronizeEvent");
    }

    /** The same for so long at most (rounded up to milliseconds). False: it is not complete. */
    template <class Rep, class Period>
    [[nodiscard]] bool synchronize(std::chrono::duration<Rep, Period> limit) const
    {
        if (limit <= limit.zero())
            return query();
        const auto ms = std::ceil(std::chrono::duration<double, std::milli>(limit).count());
        constexpr auto most = std::numeric_limits<std::int32_t>::max();
        const auto timeout = ms >= most ? most : static_cast<std::int32_t>(ms);
        const aclError result = aclrtSynchronizeEventWithTimeout(event_, timeout > 0 ? timeout : 1);

        if (result == ACL_ERROR_RT_EVENT_SYNC_TIMEOUT) {
            aclGetRecentErrMsg(); /* no failure: not to be told as the reason of a later one */
            return false;
        }
        throw_if_error(result, "aclrtSynchronizeEventWithTimeout");
        return true;
    }

    /**
     * Have an eventfd written when the record that is the latest now is complete or has failed:
     * aclnpudEventNotifyFd().
     */
    void notify(int eventfd) const
    {
        throw_if_error(aclnpudEventNotifyFd(event_, eventfd), "aclnpudEventNotifyFd");
    }

  private:
    event::handle_t event_ = nullptr;
};

namespace event
{

/** Own an event of the C interface. */
inline event_t wrap(handle_t owned) noexcept
{
    return event_t(owned);
}

namespace ipc
{

/** The 64 bytes that name an event to other processes. A secret: they open the event. */
class handle_t
{
  public:
    static constexpr std::size_t size = ACL_IPC_EVENT_HANDLE_SIZE;

    /** Zeros, which name nothing. */
    handle_t() noexcept : raw_{}
    {
    }
    handle_t(const aclrtIpcEventHandle &raw) noexcept : raw_(raw)
    {
    }

    const aclrtIpcEventHandle &raw() const noexcept
    {
        return raw_;
    }
    operator const aclrtIpcEventHandle &() const noexcept
    {
        return raw_;
    }

    const unsigned char *data() const noexcept
    {
        return reinterpret_cast<const unsigned char *>(raw_.reserved);
    }
    unsigned char *data() noexcept
    {
        return reinterpret_cast<unsigned char *>(raw_.reserved);
    }

    /** 128 hexadecimal digits. */
    std::string to_string() const
    {
        static constexpr char digits[] = "0123456789abcdef";
        std::string text;

        text.reserve(2 * size);
        for (std::size_t i = 0; i < size; i++) {
            text += digits[data()[i] >> 4];
            text += digits[data()[i] & 15];
        }
        return text;
    }

    /** What to_string() has made; upper case will do. Throws 107000 for anything else. */
    static handle_t from_string(std::string_view text)
    {
        handle_t result;

        if (text.size() != 2 * size)
            refuse();
        for (std::size_t i = 0; i < size; i++)
            result.data()[i] =
                static_cast<unsigned char>(digit(text[2 * i]) << 4 | digit(text[2 * i + 1]));
        return result;
    }

    friend bool operator==(const handle_t &a, const handle_t &b) noexcept
    {
        return std::memcmp(a.raw_.reserved, b.raw_.reserved, size) == 0;
    }
    friend bool operator!=(const handle_t &a, const handle_t &b) noexcept
    {
        return !(a == b);
    }
    friend bool operator<(const handle_t &a, const handle_t &b) noexcept
    {
        return std::memcmp(a.raw_.reserved, b.raw_.reserved, size) < 0;
    }

  private:
    [[noreturn]] static void refuse()
    {
        throw error(ACL_ERROR_RT_PARAM_INVALID,
                    "npud::event::ipc::handle_t: a handle is written as 128 hexadecimal digits");
    }

    static unsigned digit(char c)
    {
        if (c >= '0' && c <= '9')
            return static_cast<unsigned>(c - '0');
        if (c >= 'a' && c <= 'f')
            return static_cast<unsigned>(c - 'a' + 10);
        if (c >= 'A' && c <= 'F')
            return static_cast<unsigned>(c - 'A' + 10);
        refuse();
    }

    aclrtIpcEventHandle raw_;
};

static_assert(sizeof(handle_t) == handle_t::size, "nothing but the bytes");
static_assert(std::is_trivially_copyable<handle_t>::value &&
                  std::is_standard_layout<handle_t>::value,
              "may be sent as it is");

/** A new event that can be exported, on the device of the current context. */
inline event_t create()
{
    event::handle_t event;
    throw_if_error(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC), "aclrtCreateEventExWithFlag");
    return event_t(event);
}

/** The handle of an event that create() or import() made: the same at every call. */
inline handle_t export_(event::handle_t event)
{
    aclrtIpcEventHandle raw;
    throw_if_error(aclrtIpcGetEventHandle(event, &raw), "aclrtIpcGetEventHandle");
    return raw;
}
inline handle_t export_(const event_t &event)
{
    return export_(event.get());
}

/** Open an exported event on a device, whatever is current. */
inline event_t import(device::id_t device, const handle_t &handle)
{
    event::handle_t event;
    throw_if_error(aclnpudIpcOpenEventOnDevice(&event, handle.raw(), device),
                   "aclnpudIpcOpenEventOnDevice");
    return event_t(event);
}

/** Open an exported event in a context, whatever is current. */
inline event_t import(context::handle_t context, const handle_t &handle)
{
    event::handle_t event;
    throw_if_error(aclnpudIpcOpenEventInContext(&event, handle.raw(), context),
                   "aclnpudIpcOpenEventInContext");
    return event_t(event);
}

/** What stands behind a handle. */
struct info_t {
    device::id_t device; /* -1: this process does not see it */
    device::uuid_t device_uuid;
    std::int32_t exporter_pid;
    bool exporter_alive;
};

/** Opens nothing. See aclnpudIpcEventGetInfo(). */
inline info_t info(const handle_t &handle)
{
    aclnpudIpcEventInfo raw;
    throw_if_error(aclnpudIpcEventGetInfo(handle.raw(), &raw), "aclnpudIpcEventGetInfo");
    return {raw.deviceId, raw.deviceUuid, raw.pid, raw.alive != 0};
}

} // namespace ipc
} // namespace event
} // namespace npud

/** For unordered containers. */
template <> struct std::hash<npud::event::ipc::handle_t> {
    std::size_t operator()(const npud::event::ipc::handle_t &handle) const noexcept
    {
        return std::hash<std::string_view>()(
            {handle.raw().reserved, npud::event::ipc::handle_t::size});
    }
};

#endif
