/*
 * What the compiler of kernels has built in, for the host: words of kernels, launches, and the
 * records by which the library knows kernels (acl/acl_npud_kernel.h). The driver `bisheng` includes
 * it before each source; kernel_operator.h does so, too.
 */
#ifndef NPUD_KERNEL_H
#define NPUD_KERNEL_H

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <new>
#include <type_traits>
#include <utility>

#include "acl/acl_npud_kernel.h"
#include "npud_half.h"

/* The translator of the driver reads these words; without it they say nothing. */
#ifdef NPUD_TRANSLATE
#define __gm__ __npud_gm__ /* a macro: headers ask whether there is one */
#else
#define __global__
#define __cube__
#define __vector__
#define __mix__(...)
#define __gm__
#endif
/* All memory is that of the process. */
#define __aicore__
#define __ubuf__
#define __cbuf__
#define __ca__
#define __cb__
#define __cc__
#define __fbuf__
#define __inline_vector__ inline
#define GM_ADDR           __gm__ uint8_t *

#ifndef __NPU_ARCH__
#define __NPU_ARCH__ 2201
#endif
#ifndef __CCE_AICORE__
#define __CCE_AICORE__ 220
#endif

namespace npud
{

/* --- the block that runs --- */

#ifdef ASCENDC_CPU_DEBUG
/* npud_cpu.h: blocks that ICPU_RUN_KF() runs. */
const aclnpudBlock *block_self();
void block_sync();
void *block_memory(size_t size);
#else
inline const aclnpudBlock *block_self() { return aclnpudBlockSelf(); }

inline void block_sync() { aclnpudBlockSync(); }

inline void *block_memory(size_t size) { return aclnpudBlockMemory(size); }
#endif

/* block_idx and block_num: numbers that are asked for at each use. Objects, so that a variable of a
 * program may have such a name. */
struct BlockIndex {
    operator int64_t() const { return block_self()->index; }
};

struct BlockCount {
    operator int64_t() const { return block_self()->num; }
};

/* What instructions of this block have set that holds for later ones (npud_ascendc.h). */
struct BlockState {
    int atomic = 0;
};

inline thread_local BlockState block_state;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-security"
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
template <typename... Values> inline int print(const char *format, Values... values)
{
    return aclnpudKernelPrint(format, values...);
}
#pragma GCC diagnostic pop

/* Ends the kernel as by a trap, after a sentence that says why. */
template <typename... Values> [[noreturn]] inline void fail(const char *format, Values... values)
{
    print(format, values...);
    __builtin_trap();
}

/* --- arguments: one block of bytes, each parameter at a multiple of 8 --- */

template <typename... Parameters> struct Layout {
    static_assert((std::is_trivially_copyable_v<Parameters> && ...),
                  "parameters of a kernel are copied to the device byte by byte: each type must be "
                  "trivially copyable, and none a reference");
    static constexpr size_t count = sizeof...(Parameters);
    struct Table {
        aclnpudKernelParam params[count + 1] = {};
        uint32_t size = 0;
    };
    static constexpr Table make_table()
    {
        Table table;
        size_t i = 0;
        ((table.params[i].offset = table.size, table.params[i].size = sizeof(Parameters),
          table.size += (sizeof(Parameters) + 7) / 8 * 8, i++),
         ...);
        return table;
    }
    static constexpr Table table = make_table();
};

template <typename T> inline T read_parameter(const unsigned char *from)
{
    alignas(T) unsigned char bytes[sizeof(T)];
    std::memcpy(bytes, from, sizeof bytes);
    return *std::launder(reinterpret_cast<T *>(bytes));
}

template <typename... Parameters, size_t... Index>
inline void call_with(void (*function)(Parameters...), [[maybe_unused]] const unsigned char *args,
                      std::index_sequence<Index...>)
{
    function(
        read_parameter<Parameters>(args + Layout<Parameters...>::table.params[Index].offset)...);
}

/* aclnpudKernel's call. */
template <typename... Parameters> inline void call_kernel(const void *function, const void *args)
{
    block_state = BlockState();
    call_with(reinterpret_cast<void (*)(Parameters...)>(const_cast<void *>(function)),
              static_cast<const unsigned char *>(args), std::index_sequence_for<Parameters...>());
}

template <typename... Parameters>
inline aclnpudKernel describe_kernel(const char *name, void (*function)(Parameters...),
                                     aclrtKernelType kind)
{
    using Table = Layout<Parameters...>;
    return {sizeof(aclnpudKernel),
            kind,
            0,
            name,
            reinterpret_cast<const void *>(function),
            call_kernel<Parameters...>,
            Table::table.params,
            static_cast<uint32_t>(Table::count),
            Table::table.size};
}

/* --- launches --- */

/* A parameter as aclrtlaunch_NAME() gets it: numbers as they are, all else by an address. */
template <typename Parameter, typename Argument> inline Parameter take_argument(Argument argument)
{
    if constexpr (!std::is_pointer_v<Argument> || std::is_pointer_v<Parameter>)
        return static_cast<Parameter>(argument);
    else
        return *static_cast<const Parameter *>(argument);
}

template <typename... Parameters> class Launch
{
  public:
    Launch(const aclnpudKernel &kernel, uint32_t blocks, aclrtStream stream)
        : kernel_(kernel), blocks_(blocks), stream_(stream)
    {
    }

    /* Launches, and returns 0 or the code of the error. */
    int operator()(Parameters... values) const
    {
        using Table = Layout<Parameters...>;
        alignas(16) unsigned char args[Table::table.size + 1] = {};
        [[maybe_unused]] size_t i = 0;
        (std::memcpy(args + Table::table.params[i++].offset, &values, sizeof values), ...);
        return aclnpudLaunchKernel(&kernel_, blocks_, args, Table::table.size, stream_);
    }

    template <typename... Arguments> int forward(Arguments... arguments) const
    {
        return (*this)(take_argument<Parameters>(arguments)...);
    }

  private:
    aclnpudKernel kernel_;
    uint32_t blocks_;
    aclrtStream stream_;
};

/* kernel<<<blocks, l2, stream>>>. The second value is for devices. */
template <aclrtKernelType kind = ACL_KERNEL_TYPE_AICORE, typename L2, typename... Parameters>
inline Launch<Parameters...> launch(const char *name, void (*kernel)(Parameters...),
                                    uint32_t blocks, const L2 &, aclrtStream stream)
{
    return {describe_kernel(name, kernel, kind), blocks, stream};
}

/* A kernel of a template, by what the translator has declared behind the template: a function that
 * has its parameters. */
template <typename Function, Function function>
using Deduced = std::integral_constant<Function, function>;

/* The same for a template whose arguments deduce() finds from those of the call. */
template <aclrtKernelType kind = ACL_KERNEL_TYPE_AICORE, typename Deduce, typename L2>
inline auto launch_deduced(const char *name, Deduce deduce, uint32_t blocks, const L2 &l2,
                           aclrtStream stream)
{
    return [=](auto &&...values) {
        return launch<kind>(name, deduce(values...), blocks, l2,
                            stream)(std::forward<decltype(values)>(values)...);
    };
}

/* --- records --- */

/* The name that the function has for the linker. A program's own functions have none while it runs
 * unless it was linked with -rdynamic: then the name of the source. */
inline const char *symbol_of(const void *function, const char *name)
{
    Dl_info info;
    bool found = dladdr(function, &info) && info.dli_saddr == function && info.dli_sname;
    return found ? info.dli_sname : name;
}

/* Stands behind each kernel. */
template <auto Function> class Record
{
  public:
    Record(const char *name, aclrtKernelType kind, bool plain)
        : kernel_(describe_kernel(name, Function, kind))
    {
        if (!plain)
            kernel_.name = symbol_of(kernel_.function, name);
        aclnpudKernelRegister(&kernel_);
    }
    ~Record() { aclnpudKernelUnregister(&kernel_); }
    Record(const Record &) = delete;
    Record &operator=(const Record &) = delete;

  private:
    aclnpudKernel kernel_;
};

/* Stands behind each variable with __gm__. */
class Variable
{
  public:
    template <typename T>
    Variable(const char *name, T &variable)
        : variable_{sizeof variable_, std::is_const_v<std::remove_all_extents_t<T>>, name,
                    const_cast<void *>(static_cast<const volatile void *>(&variable)),
                    sizeof variable}
    {
        aclnpudVariableRegister(&variable_);
    }
    ~Variable() { aclnpudVariableUnregister(&variable_); }
    Variable(const Variable &) = delete;
    Variable &operator=(const Variable &) = delete;

  private:
    aclnpudVariable variable_;
};

/* Types of tasks, by which a kernel says on which cores it runs; the translator looks for the name
 * in its body. */
enum TaskType {
    task_type_KERNEL_TYPE_AIV_ONLY,
    task_type_KERNEL_TYPE_AIC_ONLY,
    task_type_KERNEL_TYPE_MIX_AIV_1_0,
    task_type_KERNEL_TYPE_MIX_AIC_1_0,
    task_type_KERNEL_TYPE_MIX_AIC_1_1,
    task_type_KERNEL_TYPE_MIX_AIC_1_2,
    task_type_KERNEL_TYPE_AICORE,
    task_type_KERNEL_TYPE_VECTORCORE,
    task_type_KERNEL_TYPE_MIX_AICORE,
    task_type_KERNEL_TYPE_MIX_VECTOR_CORE
};

} // namespace npud

#define KERNEL_TASK_TYPE_DEFAULT(type) static_cast<void>(::npud::task_type_##type)
#define KERNEL_TASK_TYPE(key, type)    static_cast<void>(::npud::task_type_##type)

inline constexpr npud::BlockIndex block_idx{};
inline constexpr npud::BlockCount block_num{};

inline int64_t get_block_idx() { return npud::block_self()->index; }

inline int64_t get_block_num() { return npud::block_self()->num; }

inline int64_t get_subblockid() { return npud::block_self()->subIndex; }

inline int64_t get_subblockdim() { return npud::block_self()->subNum; }

#ifdef ASCENDC_CPU_DEBUG
#include "npud_cpu.h"
#endif

#endif
