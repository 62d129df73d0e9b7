// Host functions of two streams that an event puts in order.
#include "expect.h"

#include <string>

struct job {
    std::string *log;
    char name;
};

static void append_name(void *args)
{
    const job *what = static_cast<job *>(args);
    what->log->push_back(what->name);
}

int main()
{
    aclrtStream first = nullptr, second = nullptr;
    aclrtEvent event = nullptr;
    std::string log;
    job a{&log, 'a'}, b{&log, 'b'}, c{&log, 'c'};

    CALL(aclInit(nullptr));
    CALL(aclrtSetDevice(0));
    CALL(aclrtCreateStream(&first));
    CALL(aclrtCreateStream(&second));
    CALL(aclrtCreateEvent(&event));
    CALL(aclrtLaunchHostFunc(first, append_name, &a));
    CALL(aclrtLaunchHostFunc(first, append_name, &b));
    CALL(aclrtRecordEvent(event, first));
    CALL(aclrtStreamWaitEvent(second, event));
    CALL(aclrtLaunchHostFunc(second, append_name, &c));
    CALL(aclrtSynchronizeDevice());
    EXPECT(log == "abc");
    CALL(aclrtDestroyEvent(event));
    CALL(aclrtDestroyStream(first));
    CALL(aclrtDestroyStream(second));
    CALL(aclrtResetDevice(0));
    CALL(aclFinalize());
    puts(log.c_str());
}
