/* How many bytes a tensor has. */
#include "expect.h"

static size_t tensor_bytes(aclDataType type, const int64_t *shape, size_t dimensions)
{
    size_t bytes = aclDataTypeSize(type);

    for (size_t i = 0; i < dimensions; i++)
        bytes *= (size_t)shape[i];
    return bytes;
}

int main(void)
{
    const int64_t image[] = {1, 3, 224, 224};

    EXPECT(tensor_bytes(ACL_FLOAT, image, 4) == 3 * 224 * 224 * 4);
    EXPECT(tensor_bytes(ACL_FLOAT16, image, 4) == 3 * 224 * 224 * 2);
    EXPECT(tensor_bytes(ACL_BF16, image, 2) == 3 * 2);
    EXPECT(aclDataTypeSize(ACL_INT8) == 1 && aclDataTypeSize(ACL_BOOL) == 1);
    EXPECT(aclDataTypeSize(ACL_DOUBLE) == 8 && aclDataTypeSize(ACL_COMPLEX128) == 16);
    EXPECT(aclDataTypeSize(ACL_DT_UNDEFINED) == 0 && aclDataTypeSize(ACL_STRING) == 0);
    printf("an image of floats has %zu bytes\n", tensor_bytes(ACL_FLOAT, image, 4));
    return 0;
}
