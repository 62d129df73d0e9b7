// Kernels in plain C++ in a library: floats, doubles and structures by value.
#include "device.h"
#include "plain_kernels.h"

static void add(Device &device)
{
    std::vector<float> x = count_up(1000), y(1000, 0.5F);
    Array<float> on_x(x), on_y(y);

    for (uint32_t blocks : {1, 7, 40})
        CALL(launch_saxpy(blocks, device.stream, on_y.data(), on_x.data(), 2.5F, 1000));
    device.wait();
    y = on_y.read();
    for (size_t i = 0; i < y.size(); i++)
        EXPECT(y[i] == 7.5F * x[i] + 0.5F);
}

static void mix(Device &device)
{
    Array<double> out(std::vector<double>(3));

    CALL(launch_mix(3, device.stream, out.data(), {1.25, -3, {0.5F, 1.5F, 2.5F}}, 1e10, true));
    device.wait();
    for (int i = 0; i < 3; i++)
        EXPECT(out.read()[i] == -(1.25e10 - 3 + i + 0.5));
}

int main()
{
    Device device;
    Array<int> out(std::vector<int>(3));

    add(device);
    mix(device);
    CALL(launch_nothing(device.stream));
    CALL(launch_nothing(nullptr));
    CALL(aclrtSynchronizeStream(nullptr));
    CALL(launch_in_namespaces(device.stream, out.data()));
    device.wait();
    EXPECT((out.read() == std::vector<int>{16, 2, 4}));
    EXPECT(launch_saxpy(0, device.stream, nullptr, nullptr, 1, 0) == ACL_ERROR_RT_PARAM_INVALID);
    return 0;
}
