// Half precision on the host: a vector there and back.
#include "expect.h"

#include <cmath>
#include <vector>

int main()
{
    std::vector<float> numbers = {0.0f, 1.0f, -2.5f, 0.333333f, 1000.0f, 65504.0f, 6e-8f};
    std::vector<aclFloat16> halves;
    double worst = 0;

    for (float number : numbers)
        halves.push_back(aclFloatToFloat16(number));
    EXPECT(halves[1] == 0x3C00 && halves[2] == 0xC100 && halves[5] == 0x7BFF);
    for (size_t i = 0; i < numbers.size(); i++)
        if (std::fabs(numbers[i]) > 1e-4)
            worst = std::fmax(worst, std::fabs(aclFloat16ToFloat(halves[i]) / numbers[i] - 1));
    EXPECT(worst < 1.0 / 2048);
    EXPECT(aclFloat16ToFloat(halves[6]) > 0);  // the smallest subnormal number
    EXPECT(aclFloatToFloat16(1e9f) == 0x7BFF); // saturates
    EXPECT(std::isinf(aclFloat16ToFloat(0x7C00)));
    printf("off by %g at most\n", worst);
}
