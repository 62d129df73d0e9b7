// How many NPUs there are, and their names, by reading what npu-smi prints.
#include "expect.h"

#include <array>
#include <regex>
#include <string>

static std::string output_of(const std::string &command)
{
    std::array<char, 4096> part;
    std::string all;
    FILE *pipe = popen(command.c_str(), "r");
    EXPECT(pipe);
    while (const size_t n = fread(part.data(), 1, part.size(), pipe))
        all.append(part.data(), n);
    EXPECT(pclose(pipe) == 0);
    return all;
}

int main()
{
    const std::string list = output_of("npu-smi info -l"), table = output_of("npu-smi info");
    std::smatch found;
    uint32_t count = 0;

    EXPECT(std::regex_search(list, found, std::regex("Total Count +: (\\d+)")));
    CALL(aclInit(nullptr));
    CALL(aclrtGetDeviceCount(&count));
    EXPECT(std::stoul(found[1]) == count);
    const std::string chip = std::string(aclrtGetSocName()).substr(std::string("Ascend").size());
    EXPECT(table.find(chip) != std::string::npos);
    const std::string board = output_of("npu-smi info -t board -i 1");
    EXPECT(board.find(chip) != std::string::npos);
    CALL(aclFinalize());
    printf("%u times %s\n", count, chip.c_str());
}
