// Deterministic kernels for the process, and for one context alone.
#include "expect.h"

int main()
{
    aclrtContext first = nullptr, second = nullptr;
    int64_t value = -1;

    CALL(aclInit(nullptr));
    CALL(aclrtGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value));
    EXPECT(value == 0);
    CALL(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtSetSysParamOpt(ACL_OPT_STRONG_CONSISTENCY, 2));
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1));

    CALL(aclrtCreateContext(&first, 0));
    CALL(aclrtCreateContext(&second, 0));
    CALL(aclrtSetCurrentContext(first));
    CALL(aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 0));
    CALL(aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value));
    EXPECT(value == 0);
    CALL(aclrtSetCurrentContext(second));
    const aclError unset = aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value);
    EXPECT(unset == 107021); // nothing was set in this one
    CALL(aclrtGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value));
    EXPECT(value == 1);
    CALL(aclrtDestroyContext(second));
    CALL(aclrtDestroyContext(first));
    CALL(aclFinalize());
    puts("deterministic but in one context");
}
