// Dumps of data: what kernels found in memory, and what they left there.
#include <acl/acl_dump.h>
#include <acl/acl_npud_kernel.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "expect.h"

namespace fs = std::filesystem;

static const int words = 16;
static char output[] = "/tmp/dump_XXXXXX";

struct Part {
    std::string line, bytes;
};

// A file of a dump: its name below the folder of the device, and its parts.
struct Dump {
    std::string name;
    std::vector<Part> parts;
};

static std::vector<Part> read_parts(const fs::path &path)
{
    std::ifstream in(path);
    std::vector<Part> parts;

    for (Part p; std::getline(in, p.line); parts.push_back(p)) {
        const size_t size = std::stoul(p.line.substr(p.line.find("\"bytes\":") + 8));

        p.bytes.assign(size, '\0');
        in.read(p.bytes.data(), static_cast<std::streamsize>(size));
        EXPECT(in && in.get() == '\n');
    }
    return parts;
}

// All that there are, in the order of their times, which are no more afterwards.
static std::vector<Dump> take_dumps()
{
    const fs::path folder = fs::path(output) / "0";
    std::vector<Dump> dumps;

    if (!fs::exists(folder))
        return dumps;
    for (const auto &f : fs::recursive_directory_iterator(folder))
        if (f.is_regular_file())
            dumps.push_back({fs::relative(f.path(), folder), read_parts(f.path())});
    fs::remove_all(folder);
    std::sort(dumps.begin(), dumps.end(),
              [](const Dump &a, const Dump &b) { return a.name < b.name; });
    return dumps;
}

static void configure(const std::string &members)
{
    const std::string path = std::string(output) + "/acl.json";

    std::ofstream(path) << R"({"dump": {"dump_path": ")" << output << "\", " << members << "}}";
    CALL(aclmdlSetDump(path.c_str()));
}

// --- kernels ---

static void fill(uint64_t *to, uint64_t value)
{
    for (int i = 0; i < words; i++)
        to[i] = value;
}

static void fault(uint64_t *, uint64_t)
{
    __builtin_trap();
}

static void launch(const char *name, void (*function)(uint64_t *, uint64_t), uint64_t *to,
                   uint64_t value, aclrtStream stream)
{
    const uint64_t args[] = {reinterpret_cast<uintptr_t>(to), value};
    aclnpudKernel k = {};

    k.size = sizeof(k);
    k.kind = ACL_KERNEL_TYPE_AICORE;
    k.name = name;
    k.function = reinterpret_cast<const void *>(function);
    CALL(aclnpudLaunchKernel(&k, 1, args, sizeof(args), stream));
}

static bool begins(const std::string &text, const std::string &with)
{
    return text.compare(0, with.size(), with) == 0;
}

static bool ends(const std::string &text, const std::string &with)
{
    return text.size() >= with.size() && text.substr(text.size() - with.size()) == with;
}

// Head, arguments, and the memory of the first one.
static void expect_dump(const Dump &d, const std::string &begin, const std::string &end,
                        uint64_t argument, uint64_t found)
{
    uint64_t word;

    EXPECT(begins(d.name, begin) && ends(d.name, end));
    EXPECT(d.parts.size() == 3);
    EXPECT(d.parts[0].line.find("\"dump\":\"data\"") != std::string::npos);
    EXPECT(d.parts[1].bytes.size() == 16);
    memcpy(&word, &d.parts[1].bytes[8], sizeof(word));
    EXPECT(word == argument);
    EXPECT(d.parts[2].line.find("\"argsOffset\":0") != std::string::npos);
    EXPECT(d.parts[2].bytes.size() >= words * sizeof(word));
    for (int i = 0; i < words; i++) {
        memcpy(&word, &d.parts[2].bytes[i * sizeof(word)], sizeof(word));
        EXPECT(word == found);
    }
}

// --- kernels that are launched ---

static void try_single(uint64_t *memory, aclrtStream stream)
{
    launch("fill", fill, memory, 1, stream);
    CALL(aclrtSynchronizeStream(stream));
    configure(R"("dump_op_switch": "on", "dump_mode": "all")");
    launch("a/fill", fill, memory, 2, stream);
    CALL(aclrtSynchronizeStream(stream));
    std::vector<Dump> dumps = take_dumps();
    EXPECT(dumps.size() == 2);
    expect_dump(dumps[0], "a_fill.", ".input", 2, 1);
    expect_dump(dumps[1], "a_fill.", ".output", 2, 2);

    configure(R"("dump_op_switch": "on")"); // output
    for (uint64_t i = 3; i < 6; i++)
        launch("fill", fill, memory, i, stream);
    CALL(aclrtSynchronizeStream(stream));
    dumps = take_dumps();
    EXPECT(dumps.size() == 3);
    for (uint64_t i = 3; i < 6; i++)
        expect_dump(dumps[i - 3], "fill.", ".output", i, i);

    configure(R"("dump_op_switch": "on", "dump_mode": "input", "dump_data": "stats")");
    launch("fill", fill, memory, 6, stream);
    CALL(aclrtSynchronizeStream(stream));
    dumps = take_dumps();
    EXPECT(dumps.size() == 1 && ends(dumps[0].name, ".input") && dumps[0].parts.size() == 3);
    EXPECT(dumps[0].parts[2].bytes.empty());
    EXPECT(dumps[0].parts[2].line.find("\"size\":") != std::string::npos);
    EXPECT(dumps[0].parts[2].line.find("error") == std::string::npos);

    configure(R"("dump_list": [{"model_name": "m"}], "dump_mode": "all")");
    launch("fill", fill, memory, 7, stream);
    CALL(aclrtSynchronizeStream(stream));
    EXPECT(take_dumps().empty());
}

// --- models ---

static aclmdlRI capture(uint64_t *memory, aclrtStream stream, const char *name)
{
    aclmdlRI model;

    CALL(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    launch("fill", fill, memory, 10, stream);
    launch("fill", fill, memory, 11, stream);
    launch("other", fill, memory, 12, stream);
    CALL(aclmdlRICaptureEnd(stream, &model));
    if (name)
        CALL(aclmdlRISetName(model, name));
    return model;
}

static std::vector<Dump> execute(aclmdlRI model, int times, aclrtStream stream)
{
    for (int i = 0; i < times; i++)
        CALL(aclmdlRIExecuteAsync(model, stream));
    CALL(aclrtSynchronizeStream(stream));
    return take_dumps();
}

static void try_model(uint64_t *memory, aclrtStream stream)
{
    aclmdlRI named = capture(memory, stream, "m"), unnamed = capture(memory, stream, nullptr);
    uint32_t id, unnamed_id;

    CALL(aclmdlRIGetId(named, &id));
    CALL(aclmdlRIGetId(unnamed, &unnamed_id));
    const std::string folder = "m." + std::to_string(id) + "/";

    configure(R"("dump_list": [{"model_name": "m"}], "dump_step": "1|3-4")");
    EXPECT(execute(unnamed, 1, stream).empty());
    std::vector<Dump> dumps = execute(named, 6, stream); // of the first six
    EXPECT(dumps.size() == 9);
    for (size_t i = 0; i < 9; i++) {
        const char *const steps[] = {"1/", "3/", "4/"}, *const kernels[] = {"fill_0.", "fill_1.",
                                                                            "other_2."};

        expect_dump(dumps[i], folder + steps[i / 3] + kernels[i % 3], ".output", 10 + i % 3,
                    10 + i % 3);
    }
    EXPECT(execute(named, 2, stream).empty());

    configure(R"("dump_list": [{"model_name": "m", "layer": ["fill_1", "fill_2", "x"]}],
                 "dump_mode": "all")");
    dumps = execute(named, 1, stream);
    EXPECT(dumps.size() == 2);
    expect_dump(dumps[0], folder + "8/fill_1.", ".input", 11, 10);
    expect_dump(dumps[1], folder + "8/fill_1.", ".output", 11, 11);

    configure(R"("dump_list": [{"layer": ["fill"]}])"); // of any model
    dumps = execute(unnamed, 1, stream);
    EXPECT(dumps.size() == 2);
    expect_dump(dumps[0], "model." + std::to_string(unnamed_id) + "/1/fill_0.", ".output", 10, 10);

    configure(R"("dump_op_switch": "on")"); // no model
    EXPECT(execute(named, 1, stream).empty());
    CALL(aclmdlRIDestroy(named));
    CALL(aclmdlRIDestroy(unnamed));
}

// --- others ---

static int pieces;

static int32_t count_piece(const acldumpChunk *piece, int32_t)
{
    EXPECT(begins(piece->fileName, std::string(output) + "/0/fill."));
    pieces++;
    return 0;
}

static void try_callback(uint64_t *memory, aclrtStream stream)
{
    configure(R"("dump_op_switch": "on", "dump_mode": "all")");
    CALL(acldumpRegCallback(count_piece, 0));
    launch("fill", fill, memory, 7, stream);
    CALL(aclrtSynchronizeStream(stream));
    acldumpUnregCallback();
    EXPECT(pieces == 2 && take_dumps().empty());
}

// What a kernel that fails has left is not its output.
static void try_failure(uint64_t *memory)
{
    aclrtStream stream;

    CALL(aclrtCreateStream(&stream));
    configure(R"("dump_op_switch": "on", "dump_mode": "all")");
    launch("fault", fault, memory, 1, stream);
    EXPECT(aclrtSynchronizeStream(stream) != ACL_SUCCESS);
    std::vector<Dump> dumps = take_dumps();
    EXPECT(dumps.size() == 1 && ends(dumps[0].name, ".input"));
    CALL(aclrtDestroyStream(stream));
}

int main()
{
    aclrtStream stream;
    void *memory;

    EXPECT(mkdtemp(output));
    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&stream));
    CALL(aclrtMalloc(&memory, words * sizeof(uint64_t), ACL_MEM_MALLOC_HUGE_FIRST));
    CALL(aclmdlInitDump());
    try_single(static_cast<uint64_t *>(memory), stream);
    try_model(static_cast<uint64_t *>(memory), stream);
    try_callback(static_cast<uint64_t *>(memory), stream);
    try_failure(static_cast<uint64_t *>(memory));
    CALL(aclmdlFinalizeDump());
    launch("fill", fill, static_cast<uint64_t *>(memory), 7, stream);
    CALL(aclrtSynchronizeStream(stream));
    EXPECT(take_dumps().empty());
    CALL(aclrtFree(memory));
    CALL(aclrtDestroyStream(stream));
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
    fs::remove_all(output);
}
