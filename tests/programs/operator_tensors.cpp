// Tensors, scalars, arrays and lists: what they tell, and what is refused. No device is needed.
#include "expect.h"

#include <aclnn/acl_meta.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

static void expect_numbers(int64_t *got, uint64_t n, const std::vector<int64_t> &wanted)
{
    EXPECT(n == wanted.size());
    for (uint64_t i = 0; i < n; i++)
        EXPECT(got[i] == wanted[i]);
    free(got);
}

static void expect_sentence(const char *words)
{
    const char *sentence = aclGetRecentErrMsg();

    if (!sentence || !strstr(sentence, words))
        fprintf(stderr, "%s\n", sentence ? sentence : "no sentence");
    EXPECT(sentence && strstr(sentence, words));
}

static void tensors_tell()
{
    const int64_t dim[] = {2, 4}, stride[] = {1, 2}, storage[] = {10, 20};
    int there;
    aclTensor *t =
        aclCreateTensor(dim, 2, ACL_FLOAT16, stride, 3, ACL_FORMAT_NCHW, storage, 2, &there);
    int64_t *numbers, offset;
    uint64_t n;
    aclFormat format;
    aclDataType type;
    void *address;

    EXPECT(t);
    CALL(aclGetViewShape(t, &numbers, &n));
    expect_numbers(numbers, n, {2, 4});
    CALL(aclGetStorageShape(t, &numbers, &n));
    expect_numbers(numbers, n, {10, 20});
    CALL(aclGetViewStrides(t, &numbers, &n));
    expect_numbers(numbers, n, {1, 2});
    CALL(aclGetViewOffset(t, &offset));
    CALL(aclGetFormat(t, &format));
    CALL(aclGetDataType(t, &type));
    CALL(aclGetRawTensorAddr(t, &address));
    EXPECT(offset == 3 && format == ACL_FORMAT_NCHW && type == ACL_FLOAT16 && address == &there);
    CALL(aclSetRawTensorAddr(t, &address));
    CALL(aclGetRawTensorAddr(t, &address));
    EXPECT(address == &address);
    CALL(aclInitTensor(t, nullptr, 0, ACL_INT8, nullptr, 0, ACL_FORMAT_ND, nullptr, 0, nullptr));
    CALL(aclGetViewShape(t, &numbers, &n));
    expect_numbers(numbers, n, {});
    CALL(aclDestroyTensor(t));
    FAILS(ACLNN_ERR_PARAM_INVALID, aclGetDataType(t, &type));
    expect_sentence("aclGetDataType: tensor is no handle of a tensor: it was destroyed");
    FAILS(ACLNN_ERR_PARAM_INVALID, aclDestroyTensor(t));
    CALL(aclDestroyTensor(nullptr));
}

static void strides_that_are_left_out()
{
    const int64_t dim[] = {2, 3, 4};
    aclTensor *t =
        aclCreateTensor(dim, 3, ACL_BF16, nullptr, 0, ACL_FORMAT_ND, nullptr, 0, nullptr);
    int64_t *numbers;
    uint64_t n;

    CALL(aclGetViewStrides(t, &numbers, &n));
    expect_numbers(numbers, n, {12, 4, 1});
    CALL(aclGetStorageShape(t, &numbers, &n));
    expect_numbers(numbers, n, {2, 3, 4});
    CALL(aclDestroyTensor(t));
}

static void tensors_that_cannot_be()
{
    const int64_t dim[] = {2, 4}, minus[] = {2, -4}, large[] = {INT64_MAX, 2};
    const std::vector<int64_t> many(26, 1);
    auto create = [&](const int64_t *d, uint64_t n, aclDataType type, const int64_t *stride,
                      int64_t offset) {
        return aclCreateTensor(d, n, type, stride, offset, ACL_FORMAT_ND, dim, 2, nullptr);
    };

    EXPECT(!create(minus, 2, ACL_FLOAT, nullptr, 0));
    expect_sentence("viewDims[1] is -4, which is negative");
    EXPECT(!create(large, 2, ACL_FLOAT, nullptr, 0));
    expect_sentence("viewDims[1] is 2, which is too large");
    EXPECT(!create(dim, 2, ACL_FLOAT, minus, 0));
    expect_sentence("stride[1] is -4");
    EXPECT(!create(dim, 2, ACL_FLOAT, large, 0));
    EXPECT(!create(dim, 2, ACL_FLOAT, nullptr, -1));
    EXPECT(!create(dim, 2, ACL_FLOAT, nullptr, INT64_MAX));
    EXPECT(!create(nullptr, 2, ACL_FLOAT, nullptr, 0));
    EXPECT(!create(nullptr, 0, ACL_FLOAT, nullptr, -1));
    EXPECT(!create(many.data(), 26, ACL_FLOAT, nullptr, 0));
    expect_sentence("viewDims has 26 numbers; at most 25 are allowed");
    EXPECT(!create(dim, UINT64_MAX, ACL_FLOAT, nullptr, 0));
    for (int none : {-1, 5, 14, 15, 18, 26, 28, 31, 32, 42}) {
        EXPECT(!create(dim, 2, static_cast<aclDataType>(none), nullptr, 0));
        expect_sentence((std::to_string(none) + " is no type of tensors").c_str());
        EXPECT(!aclCreateScalar(const_cast<int64_t *>(dim), static_cast<aclDataType>(none)));
        expect_sentence((std::to_string(none) + " is no type of scalars").c_str());
    }
    EXPECT(!aclCreateTensor(dim, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, minus, 2, nullptr));
    expect_sentence("storageDims[1] is -4");
    aclTensor *t = create(dim, 2, ACL_FLOAT, nullptr, 0);
    FAILS(ACLNN_ERR_PARAM_INVALID,
          aclInitTensor(t, minus, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, nullptr, 0, nullptr));
    FAILS(ACLNN_ERR_PARAM_NULLPTR, aclInitTensor(nullptr, dim, 2, ACL_FLOAT, nullptr, 0,
                                                 ACL_FORMAT_ND, nullptr, 0, nullptr));
    FAILS(ACLNN_ERR_PARAM_NULLPTR, aclGetViewShape(t, nullptr, nullptr));
    FAILS(ACLNN_ERR_PARAM_NULLPTR, aclGetViewOffset(nullptr, nullptr));
    FAILS(ACLNN_ERR_PARAM_NULLPTR, aclGetRawTensorAddr(t, nullptr));
    FAILS(ACLNN_ERR_PARAM_NULLPTR, aclSetRawTensorAddr(nullptr, nullptr));
    int64_t *numbers;
    uint64_t n;
    CALL(aclGetViewShape(t, &numbers, &n)); // as it was
    expect_numbers(numbers, n, {2, 4});
    CALL(aclDestroyTensor(t));
}

// A handle is never that of another object, however many come after it.
static void handles_stay_stale()
{
    const int64_t number = 1;
    std::vector<aclIntArray *> old(50), young(50);
    uint64_t size;

    for (aclIntArray *&array : old)
        array = aclCreateIntArray(&number, 1);
    for (aclIntArray *array : old)
        CALL(aclDestroyIntArray(array));
    for (aclIntArray *&array : young)
        array = aclCreateIntArray(&number, 1);
    for (aclIntArray *array : old)
        FAILS(ACLNN_ERR_PARAM_INVALID, aclGetIntArraySize(array, &size));
    for (aclIntArray *array : young)
        CALL(aclDestroyIntArray(array));
}

static void scalars_and_arrays()
{
    const int64_t numbers[] = {1, 2, 3};
    const float floats[] = {1, 2};
    const bool truths[] = {true};
    int64_t number = 4;
    uint64_t size;
    aclScalar *s = aclCreateScalar(&number, ACL_INT64);
    aclIntArray *i = aclCreateIntArray(numbers, 3);
    aclFloatArray *f = aclCreateFloatArray(floats, 2);
    aclBoolArray *b = aclCreateBoolArray(truths, 1);

    EXPECT(s && i && f && b);
    CALL(aclGetIntArraySize(i, &size));
    EXPECT(size == 3);
    CALL(aclGetFloatArraySize(f, &size));
    EXPECT(size == 2);
    CALL(aclGetBoolArraySize(b, &size));
    EXPECT(size == 1);
    FAILS(ACLNN_ERR_PARAM_INVALID, aclGetIntArraySize((aclIntArray *)f, &size));
    expect_sentence("the array is the handle of a float array, and not of an int array");
    FAILS(ACLNN_ERR_PARAM_NULLPTR, aclGetIntArraySize(i, nullptr));
    FAILS(ACLNN_ERR_PARAM_NULLPTR, aclGetIntArraySize(nullptr, &size));
    FAILS(ACLNN_ERR_PARAM_INVALID, aclDestroyScalar((aclScalar *)i));
    CALL(aclDestroyIntArray(i));
    CALL(aclDestroyFloatArray(f));
    CALL(aclDestroyBoolArray(b));
    CALL(aclDestroyScalar(s));
    FAILS(ACLNN_ERR_PARAM_INVALID, aclDestroyIntArray(i));
    EXPECT(!aclCreateScalar(nullptr, ACL_INT64));
    EXPECT(!aclCreateScalar(&number, ACL_DT_UNDEFINED));
    EXPECT(!aclCreateScalar(&number, ACL_STRING));
    EXPECT(!aclCreateIntArray(nullptr, 1));
    EXPECT(!aclCreateIntArray(numbers, UINT64_MAX / 4));
    expect_sentence("out of memory");
    i = aclCreateIntArray(nullptr, 0);
    CALL(aclGetIntArraySize(i, &size));
    EXPECT(i && size == 0);
    CALL(aclDestroyIntArray(i));
    CALL(aclDestroyIntArray(nullptr));
}

static void lists_own()
{
    const int64_t dim = 2;
    float number = 1;
    uint64_t size;
    aclDataType type;
    const aclTensor *tensors[3] = {};
    const aclScalar *scalar = aclCreateScalar(&number, ACL_FLOAT);

    for (int i = 0; i < 2; i++)
        tensors[i] =
            aclCreateTensor(&dim, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, &dim, 1, nullptr);
    aclTensorList *list = aclCreateTensorList(tensors, 3); // the last is left out
    aclScalarList *scalars = aclCreateScalarList(&scalar, 1);
    EXPECT(list && scalars);
    CALL(aclGetTensorListSize(list, &size));
    EXPECT(size == 3);
    CALL(aclGetScalarListSize(scalars, &size));
    EXPECT(size == 1);
    CALL(aclDestroyTensor(tensors[0])); // a mistake that harms nobody
    CALL(aclDestroyTensorList(list));
    FAILS(ACLNN_ERR_PARAM_INVALID, aclGetDataType(tensors[1], &type));
    FAILS(ACLNN_ERR_PARAM_INVALID, aclDestroyTensorList(list));
    EXPECT(!aclCreateTensorList(tensors, 2));
    EXPECT(!aclCreateTensorList(nullptr, 2));
    CALL(aclDestroyScalarList(scalars));
    FAILS(ACLNN_ERR_PARAM_INVALID, aclDestroyScalar(scalar));
    CALL(aclDestroyTensorList(nullptr));
}

// Children that are forked while other threads are inside of the library.
static void in_children(std::atomic<bool> &stop)
{
    for (int64_t i = 1; i <= 100; i++) {
        pid_t child = fork();

        if (child == 0) {
            aclIntArray *array = aclCreateIntArray(&i, 1);

            _exit(array && aclDestroyIntArray(array) == 0 ? 0 : 1);
        }
        EXPECT(child > 0 && ended_well(child));
    }
    stop = true;
}

// What programs in C++ do with them.
static void in_threads()
{
    std::vector<std::thread> threads;
    std::atomic<bool> stop{false};

    for (int i = 0; i < 4; i++)
        threads.emplace_back([&] {
            for (int64_t n = 1; n <= 2000 || !stop; n++) {
                std::unique_ptr<aclIntArray, aclnnStatus (*)(const aclIntArray *)> array(
                    aclCreateIntArray(&n, 1), aclDestroyIntArray);
                uint64_t size;

                CALL(aclGetIntArraySize(array.get(), &size));
            }
        });
    in_children(stop);
    for (auto &thread : threads)
        thread.join();
}

int main()
{
    tensors_tell();
    strides_that_are_left_out();
    tensors_that_cannot_be();
    handles_stay_stale();
    scalars_and_arrays();
    lists_own();
    in_threads();
}
