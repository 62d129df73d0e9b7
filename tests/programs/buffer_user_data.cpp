// What a program notes on a buffer, and on each reference to it.
#include "expect.h"

#include <acl/acl_tdt_queue.h>

struct note {
    uint32_t frame;
    uint32_t camera;
};

int main()
{
    acltdtBuf buffer = nullptr, reference = nullptr;
    note in{7, 2}, out{};
    char all[97];

    CALL(aclInit(nullptr));
    CALL(acltdtAllocBuf(64, ACL_TDT_NORMAL_MEM, &buffer));
    CALL(acltdtSetBufUserData(buffer, &in, sizeof(in), 88));
    CALL(acltdtCopyBufRef(buffer, &reference));
    in.frame = 8;
    CALL(acltdtSetBufUserData(buffer, &in, sizeof(in), 88));
    CALL(acltdtGetBufUserData(reference, &out, sizeof(out), 88));
    EXPECT(out.frame == 7 && out.camera == 2);
    CALL(acltdtGetBufUserData(buffer, &out, sizeof(out), 88));
    EXPECT(out.frame == 8);
    CALL(acltdtGetBufUserData(buffer, &out, sizeof(out), 0));
    EXPECT(out.frame == 0 && out.camera == 0);
    FAILS(ACL_ERROR_INVALID_PARAM, acltdtGetBufUserData(buffer, all, sizeof(all), 0));
    CALL(acltdtFreeBuf(buffer));
    CALL(acltdtFreeBuf(reference));
    CALL(aclFinalize());
    printf("frame %u of camera %u\n", in.frame, in.camera);
}
