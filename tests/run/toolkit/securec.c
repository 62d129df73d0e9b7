/* Functions of securec.h at their bounds: 0 if all is as its head says. */
#include "securec.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static int failed;

#define EXPECT(truth)                                                                              \
    do {                                                                                           \
        if (!(truth))                                                                              \
            failed = fprintf(stderr, "securec.c:%d: not so: %s\n", __LINE__, #truth);              \
    } while (0)

static volatile size_t none; /* what the compiler must not see */
static char *volatile null;

static void memory(void)
{
    char a[8] = "1234567", b[8] = "abcdefg";

    EXPECT(memset_s(a, sizeof(a), 'x', 3) == EOK && memcmp(a, "xxx4567", 8) == 0);
    EXPECT(memset_s(a, 4, 'y', 5) == ERANGE_AND_RESET && memcmp(a, "yyyy567", 8) == 0);
    EXPECT(memset_s(a, none, 1, 1) == ERANGE && memset_s(null, 4, 1, 1) == EINVAL);
    EXPECT(memset_s(a, SECUREC_MEM_MAX_LEN + 1 + none, 1, 1) == ERANGE && a[0] == 'y');
    EXPECT(memcpy_s(a, sizeof(a), b, 8) == EOK && memcmp(a, b, 8) == 0);
    EXPECT(memcpy_s(a, 7, b, 8 + none) == ERANGE_AND_RESET && memcmp(a, "\0\0\0\0\0\0\0", 8) == 0);
    EXPECT(memcpy_s(b, 4, null, 1) == EINVAL_AND_RESET && memcmp(b, "\0\0\0\0efg", 8) == 0);
    EXPECT(memcpy_s(b + 3, 5, b + 4, 2) == EOVERLAP_AND_RESET && b[4] == 0 && b[7] == 0);
    EXPECT(memcpy_s(a, sizeof(a), a, 8) == EOK);
    strcpy(b, "abcdefg");
    EXPECT(memmove_s(b + 1, 7, b, 7) == EOK && memcmp(b, "aabcdefg", 8) == 0);
    EXPECT(memmove_s(b, 2, b, 3 + none) == ERANGE_AND_RESET && b[1] == 0 && b[2] == 'b');
}

static void strings(void)
{
    char a[8] = "?", *place = NULL, *nothing = NULL, list[] = "a,b";

    EXPECT(strcpy_s(a, sizeof(a), "1234567") == EOK && strcmp(a, "1234567") == 0);
    EXPECT(strcpy_s(a, sizeof(a), "12345678") == ERANGE_AND_RESET && !a[0]);
    EXPECT(strncpy_s(a, sizeof(a), "12345678", 7) == EOK && strcmp(a, "1234567") == 0);
    EXPECT(strncpy_s(a, 4, "1234", 4) == ERANGE_AND_RESET && !a[0]);
    EXPECT(strncpy_s(a, 4, "1", SIZE_MAX) == EOK && strcmp(a, "1") == 0);
    EXPECT(strcat_s(a, sizeof(a), "234567") == EOK && strcmp(a, "1234567") == 0);
    EXPECT(strcat_s(a, sizeof(a), "") == EOK && strcmp(a, "1234567") == 0);
    EXPECT(strcat_s(a, sizeof(a), "8") == ERANGE_AND_RESET && !a[0]);
    EXPECT(strncat_s(a, sizeof(a), "12345", 2) == EOK && strcmp(a, "12") == 0);
    EXPECT(strncat_s(a, 2, "", 1) == EINVAL_AND_RESET && !a[0]);
    EXPECT(strcpy_s(a, sizeof(a), null) == EINVAL_AND_RESET && strcpy_s(null, 1, "") == EINVAL);
    EXPECT(strcpy_s(a, none, "") == ERANGE);
    strcpy(a, "abc");
    EXPECT(strcpy_s(a, 7, a + 1) == EOVERLAP_AND_RESET && !a[0]);
    EXPECT(strcmp(strtok_s(list, ",", &place), "a") == 0 && *strtok_s(NULL, ",", &place) == 'b');
    EXPECT(!strtok_s(NULL, ",", &place) && !strtok_s(null, ",", &nothing));
}

static void printing(void)
{
    char a[8] = "?";
    int number = 1234567;

    EXPECT(sprintf_s(a, sizeof(a), "%d", number) == 7 && strcmp(a, "1234567") == 0);
    EXPECT(sprintf_s(a, 7, "%d", number) == -1 && !a[0]);
    EXPECT(snprintf_s(a, sizeof(a), 3, "%d", number) == -1 && strcmp(a, "123") == 0);
    EXPECT(snprintf_s(a, sizeof(a), 7, "%d0", number) == -1 && strcmp(a, "1234567") == 0);
    EXPECT(snprintf_s(a, sizeof(a), 8, "%d0", number) == -1 && !a[0]);
    EXPECT(snprintf_s(a, sizeof(a), 7, "%d", number) == 7 && strcmp(a, "1234567") == 0);
    EXPECT(snprintf_s(a, none, 1, "%d", number) == -1 && sprintf_s(null, 4, "%d", 1) == -1);
}

int main(void)
{
    memory();
    strings();
    printing();
    return failed != 0;
}
