// The generated headers aclrtlaunch_NAME.h, with the macro and with the function.
#include "device.h"
#include "plain_kernels.h"
#include "aclrtlaunch_mix_all.h"
#include "aclrtlaunch_nothing.h"
#include "aclrtlaunch_saxpy.h"

int main()
{
    Device device;
    std::vector<float> x = count_up(64);
    Array<float> on_x(x), on_y(x);
    Array<double> out(std::vector<double>(1));
    Mix mix = {2, 1, {0.5F, 0, 0}};

    EXPECT(ACLRT_LAUNCH_KERNEL(saxpy)(4, device.stream, on_y.data(), on_x.data(), 2.0F, 64U) == 0);
    EXPECT(ACLRT_LAUNCH_KERNEL(saxpy)(4, nullptr, device.stream, on_y.data(), on_x.data(), 1.0F,
                                      64U) == 0);
    EXPECT(aclrtlaunch_mix_all(1, device.stream, out.data(), &mix, 3.0, false) == 0);
    EXPECT(ACLRT_LAUNCH_KERNEL(nothing)(65535, device.stream) == 0);
    device.wait();
    for (int i = 0; i < 64; i++)
        EXPECT(on_y.read()[i] == 4 * x[i]);
    EXPECT(out.read()[0] == 7.5);
    return 0;
}
