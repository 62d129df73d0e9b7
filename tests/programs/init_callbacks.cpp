// A component that wants to know when the runtime starts and ends.
#include "expect.h"

#include <string>
#include <vector>

static std::vector<std::string> calls;

static aclError at_init(const char *config, size_t length, void *data)
{
    EXPECT(std::string(config, length).empty());
    calls.push_back(*static_cast<std::string *>(data) + " begins");
    return ACL_SUCCESS;
}

static aclError at_finalize(void *data)
{
    calls.push_back(*static_cast<std::string *>(data) + " ends");
    return ACL_SUCCESS;
}

int main()
{
    std::string model = "model", other = "other", late = "late";

    CALL(aclInitCallbackRegister(ACL_REG_TYPE_OTHER, at_init, &other));
    CALL(aclInitCallbackRegister(ACL_REG_TYPE_ACL_MODEL, at_init, &model));
    CALL(aclFinalizeCallbackRegister(ACL_REG_TYPE_ACL_MODEL, at_finalize, &model));
    EXPECT(aclInitCallbackRegister(ACL_REG_TYPE_ACL_MODEL, at_init, &late) != ACL_SUCCESS);
    CALL(aclInit(nullptr));
    CALL(aclInitCallbackRegister(ACL_REG_TYPE_ACL_DVPP, at_init, &late)); // called at once
    CALL(aclFinalize());
    EXPECT((calls ==
            std::vector<std::string>{"model begins", "other begins", "late begins", "model ends"}));

    calls.clear();
    CALL(aclInitCallbackUnRegister(ACL_REG_TYPE_OTHER, at_init));
    CALL(aclInitCallbackUnRegister(ACL_REG_TYPE_ACL_DVPP, at_init));
    CALL(aclInit(nullptr));
    CALL(aclFinalize());
    EXPECT((calls == std::vector<std::string>{"model begins", "model ends"}));
    puts("begins and ends");
}
