/*
 * Other names of devices. A program numbers those that ASCEND_RT_VISIBLE_DEVICES lets it see; the
 * logic id and the physical id are npud's number. A bus id is made of that: in a domain that no
 * host has, so that it is not taken for that of another card.
 */
#include <stdio.h>
#include <string.h>

#include "acl/acl.h"
#include "client/core/error.h"
#include "client/runtime/device.h"
#include "client/runtime/session.h"

#define BUS_ID       "fffe:%02x:00.0"
#define BUS_ID_BYTES 13 /* with the NUL */

/* --- numbers --- */

static int check_numbers(const char *function, int32_t from, const int32_t *to)
{
    if (!to)
        return error_null(function, "the result");
    if (from < 0)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: id %d is negative", function, from);
    return 0;
}

static int user_to_npud(const char *function, int32_t user, int32_t *number)
{
    struct session *s;
    uint32_t device;

    RETURN_IF_ERROR(check_numbers(function, user, number));
    RETURN_IF_ERROR(device_get(function, user, &s, &device));
    *number = (int32_t)device;
    return 0;
}

/* npud's number, which must be of a device. */
static int check_number(const char *function, int32_t number, const int32_t *to,
                        struct session **session)
{
    RETURN_IF_ERROR(check_numbers(function, number, to));
    *session = FIND_OR_RETURN(session_get, function);
    if ((uint32_t)number < (*session)->n_devices)
        return 0;
    return error_set(ACL_ERROR_RT_INVALID_DEVICEID,
                     "%s: npud has %u devices, and none is number %d", function,
                     (*session)->n_devices, number);
}

static int npud_to_user(const char *function, int32_t number, int32_t *user)
{
    struct session *s;
    int32_t id;

    RETURN_IF_ERROR(check_number(function, number, user, &s));
    id = device_user_id(s, (uint32_t)number);
    if (id < 0)
        return error_set(ACL_ERROR_RT_INVALID_DEVICEID,
                         "%s: ASCEND_RT_VISIBLE_DEVICES hides device %d", function, number);
    *user = id;
    return 0;
}

static int npud_to_npud(const char *function, int32_t number, int32_t *same)
{
    struct session *s;

    RETURN_IF_ERROR(check_number(function, number, same, &s));
    *same = number;
    return 0;
}

aclError aclrtGetLogicDevIdByUserDevId(const int32_t userDevid, int32_t *const logicDevId)
{
    CALL_SCOPE;

    return user_to_npud(__func__, userDevid, logicDevId);
}

aclError aclrtGetUserDevIdByLogicDevId(const int32_t logicDevId, int32_t *const userDevid)
{
    CALL_SCOPE;

    return npud_to_user(__func__, logicDevId, userDevid);
}

aclError aclrtGetLogicDevIdByPhyDevId(const int32_t phyDevId, int32_t *const logicDevId)
{
    CALL_SCOPE;

    return npud_to_npud(__func__, phyDevId, logicDevId);
}

aclError aclrtGetPhyDevIdByLogicDevId(const int32_t logicDevId, int32_t *const phyDevId)
{
    CALL_SCOPE;

    return npud_to_npud(__func__, logicDevId, phyDevId);
}

aclError aclrtGetUserDevIdByPhyDevId(const int32_t phyDevId, int32_t *const userDevId)
{
    CALL_SCOPE;

    return npud_to_user(__func__, phyDevId, userDevId);
}

aclError aclrtGetPhyDevIdByUserDevId(const int32_t userDevId, int32_t *const phyDevId)
{
    CALL_SCOPE;

    return user_to_npud(__func__, userDevId, phyDevId);
}

/* --- the bus --- */

static void print_bus_id(char text[BUS_ID_BYTES], uint32_t device)
{
    snprintf(text, BUS_ID_BYTES, BUS_ID, (device + 1) & 0xff);
}

aclError aclrtDeviceGetPCIBusId(int32_t deviceId, char *pciBusId, int32_t len)
{
    CALL_SCOPE;
    struct session *s;
    uint32_t device;

    REQUIRE(pciBusId);
    if (len < BUS_ID_BYTES)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "aclrtDeviceGetPCIBusId: len is %d, and a bus id takes %d bytes", len,
                         BUS_ID_BYTES);
    RETURN_IF_ERROR(device_get(__func__, deviceId, &s, &device));
    print_bus_id(pciBusId, device);
    return 0;
}

aclError aclrtDeviceGetByPCIBusId(const char *pciBusId, int32_t *deviceId)
{
    CALL_SCOPE;
    REQUIRE(pciBusId);
    REQUIRE(deviceId);
    struct session *s = FIND_OR_RETURN(session_get, __func__);

    for (uint32_t i = 0; i < s->n_devices; i++) {
        char text[BUS_ID_BYTES];
        int32_t user = device_user_id(s, i);

        print_bus_id(text, i);
        if (user < 0 || strcmp(text, pciBusId) != 0)
            continue;
        *deviceId = user;
        return 0;
    }
    return error_set(ACL_ERROR_RT_PARAM_INVALID,
                     "aclrtDeviceGetByPCIBusId: no device that this process sees has this bus id "
                     "(12 characters, as aclrtDeviceGetPCIBusId gives them)");
}
