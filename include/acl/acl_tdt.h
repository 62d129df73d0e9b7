/*
 * Tensor channels: whole tensors that one thread or process sends and another one receives. Both
 * find the channel by the number of a device and a name.
 *
 * Elsewhere a channel joins a host and its device. Devices here run no program of their own that
 * could be the other end, so the other end is another thread, or another process of the same user.
 */
#ifndef ACL_ACL_TDT_H
#define ACL_ACL_TDT_H

#include "acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum acltdtTensorType {
    ACL_TENSOR_DATA_UNDEFINED = -1,
    ACL_TENSOR_DATA_TENSOR = 0,
    ACL_TENSOR_DATA_END_OF_SEQUENCE = 1, /* end of the data, no payload */
    ACL_TENSOR_DATA_ABNORMAL = 2,        /* the producer failed, no payload */
    ACL_TENSOR_DATA_SLICE_TENSOR = 3,    /* one piece of a tensor, when receiving */
    ACL_TENSOR_DATA_END_TENSOR = 4,      /* the last piece of a tensor, when receiving */
} acltdtTensorType;

typedef struct acltdtDataItem acltdtDataItem;
typedef struct acltdtDataset acltdtDataset;
typedef struct acltdtChannelHandle acltdtChannelHandle;

/* ----------------------------------------------------------------------- data items, datasets */

/*
 * Items and datasets are memory of the process, need no npud, and are for one thread at a time;
 * none is destroyed twice. Errors common to all: NULL 100000, where the function returns a code.
 * In a forked child that has not called aclInit the create functions return NULL.
 */

/*
 * Describes a tensor: dimNum dimensions, which are copied, the type of its elements, and `size`
 * bytes of host or device memory at data, which stay the caller's, are not copied, and must live
 * until the send has returned. dims is NULL exactly if dimNum is 0: a scalar. size need not be the
 * product of the dimensions, which may be negative. For other types than ACL_TENSOR_DATA_TENSOR
 * dims is NULL, and dataType, data and size are ignored: the item says ACL_DT_UNDEFINED, NULL, 0.
 * NULL: dims and dimNum disagree, more than 128 dimensions, dimensions of an item that is no
 * tensor, no memory.
 */
ACL_FUNC_VISIBILITY acltdtDataItem *acltdtCreateDataItem(acltdtTensorType tdtType,
                                                         const int64_t *dims, size_t dimNum,
                                                         aclDataType dataType, void *data,
                                                         size_t size);

/* Frees the description alone. Not for items of a dataset that was received. */
ACL_FUNC_VISIBILITY aclError acltdtDestroyDataItem(acltdtDataItem *dataItem);

/*
 * What an item says. The address is NULL if there is no data; that of a received item holds as long
 * as the item, see acltdtReceiveTensor. NULL: ACL_TENSOR_DATA_UNDEFINED, ACL_DT_UNDEFINED, NULL, 0,
 * 0.
 */
ACL_FUNC_VISIBILITY acltdtTensorType acltdtGetTensorTypeFromItem(const acltdtDataItem *dataItem);
ACL_FUNC_VISIBILITY aclDataType acltdtGetDataTypeFromItem(const acltdtDataItem *dataItem);
ACL_FUNC_VISIBILITY void *acltdtGetDataAddrFromItem(const acltdtDataItem *dataItem);
ACL_FUNC_VISIBILITY size_t acltdtGetDataSizeFromItem(const acltdtDataItem *dataItem);
ACL_FUNC_VISIBILITY size_t acltdtGetDimNumFromItem(const acltdtDataItem *dataItem);

/*
 * Copies the dimensions to dims, which has room for dimNum of them; more room is fine.
 * Errors: dims is NULL and dimNum is not 0, or the reverse; dimNum too small 100000.
 */
ACL_FUNC_VISIBILITY aclError acltdtGetDimsFromItem(const acltdtDataItem *dataItem, int64_t *dims,
                                                   size_t dimNum);

/* Pieces of a tensor, and which one this is. Both are 0: tensors arrive in one piece here. */
ACL_FUNC_VISIBILITY aclError acltdtGetSliceInfoFromItem(const acltdtDataItem *dataItem,
                                                        size_t *sliceNum, size_t *sliceId);

/*
 * A dataset is an ordered list of items. It is filled by the program (acltdtAddDataItem), or by
 * acltdtReceiveTensor, never by both. Either may be sent. NULL: no memory.
 */
ACL_FUNC_VISIBILITY acltdtDataset *acltdtCreateDataset(void);

/* Frees the list; of the items those that it has received, with their data. */
ACL_FUNC_VISIBILITY aclError acltdtDestroyDataset(acltdtDataset *dataset);

/*
 * Puts an item at the end, which stays the caller's and must live as long as it is in the dataset;
 * the same one twice is fine. Errors: the dataset was filled by a receive 200006; some of its data
 * is in host memory and some in device memory 100000; no memory 200000. Shared buffers and managed
 * memory are both.
 */
ACL_FUNC_VISIBILITY aclError acltdtAddDataItem(acltdtDataset *dataset, acltdtDataItem *dataItem);

/* Lends item `index`, 0 being the first. NULL: there are not so many. */
ACL_FUNC_VISIBILITY acltdtDataItem *acltdtGetDataItem(const acltdtDataset *dataset, size_t index);

/* How many items there are; 0 for NULL. */
ACL_FUNC_VISIBILITY size_t acltdtGetDatasetSize(const acltdtDataset *dataset);

/* Lends the name that its sender gave it: "", as no sender here does. NULL for NULL. */
ACL_FUNC_VISIBILITY const char *acltdtGetDatasetName(const acltdtDataset *dataset);

/* ---------------------------------------------------------------------------------- channels */

/*
 * A channel is first in, first out; a message is one dataset. Any thread may use a handle, also
 * several at once; several senders and several receivers, in several processes, are fine.
 *
 * The first creation under a name on a device makes the channel, and each further one, by a thread
 * or a process of the same user, joins it. A channel of another user is never found, so two users
 * may have the same names. The two kinds share the names: what a channel of acltdtCreateChannel
 * sends, a channel of acltdtCreateChannelWithCapacity with its name receives. Devices are counted
 * as the program sees them, and joined as npud counts them. The program need not have set the
 * device.
 *
 * The channel goes, with the messages in it, when the last handle of all processes was destroyed,
 * or the process with the last one has ended or called aclFinalize; then the name is free. What a
 * process has sent stays when it ends, as long as another one has a handle. A process that is
 * killed at any moment has sent a dataset as a whole or not at all.
 *
 * A call that waits for a message, or for room, is woken with 507899 and a sentence that names the
 * process when the last other process of the channel has died or has left it, unless a thread of
 * its own process has been on the other side. Calls after that return the same as long as no other
 * process joins.
 *
 * npud shows a channel as the queue that it is (npuctl queues), with its name; it counts as one for
 * the limits of its user.
 *
 * Errors common to all that return a code: NULL 100000; a handle that was destroyed, or never was
 * one, 107000; npud cannot be reached 207004, or has ended 507901. Channels of acltdtCreateChannel
 * have 500001 for all that goes wrong on the way, and take no other timeout than -1.
 */

/*
 * Makes or joins a channel that sends; one whose name begins with TF_RECEIVE_ receives, too. A full
 * or empty one is waited for. A channel that is made so holds 128 messages. NULL: name is NULL,
 * empty, or has more than 127 characters; no such device; no npud; a limit
 * (aclGetRecentErrMsg says which).
 */
ACL_FUNC_VISIBILITY acltdtChannelHandle *acltdtCreateChannel(uint32_t deviceId, const char *name);

/*
 * Makes a channel for `capacity` messages, 2 to 8192, or joins one, whatever its capacity is. It
 * sends and receives. (Elsewhere one message fewer fits.) NULL: as above, or capacity is out of
 * range.
 */
ACL_FUNC_VISIBILITY acltdtChannelHandle *acltdtCreateChannelWithCapacity(uint32_t deviceId,
                                                                         const char *name,
                                                                         size_t capacity);

/*
 * From now on no call on this handle waits: those that do return 500001, and so do later ones that
 * would have to. What is there can still be received. Other handles of the channel go on. For both
 * kinds (elsewhere without effect for a channel with a capacity).
 */
ACL_FUNC_VISIBILITY aclError acltdtStopChannel(acltdtChannelHandle *handle);

/*
 * Ends the handle, which no thread may be using, and with the last one the channel. What was
 * received stays. After an error of npud the handle is gone as well.
 */
ACL_FUNC_VISIBILITY aclError acltdtDestroyChannel(acltdtChannelHandle *handle);

/*
 * Frees the messages that are in the channel now; sending and receiving may go on beside it.
 * Errors: a channel of acltdtCreateChannel 200006.
 */
ACL_FUNC_VISIBILITY aclError acltdtCleanChannel(acltdtChannelHandle *handle);

/*
 * How many messages are in the channel at this moment. Errors: a channel of acltdtCreateChannel
 * 200006.
 */
ACL_FUNC_VISIBILITY aclError acltdtQueryChannelSize(const acltdtChannelHandle *handle,
                                                    size_t *size);

/*
 * Sends the dataset as one message: its data, from host or device memory, is copied before the call
 * returns, and all that the caller has stored before is visible to the receiver. Dataset and items
 * may then be used again. timeout limits the wait for room, in milliseconds: 0 tries once, a
 * negative one waits for ever. The order of two sends of a thread is kept. By convention
 * ACL_TENSOR_DATA_END_OF_SEQUENCE or ACL_TENSOR_DATA_ABNORMAL is the only item of its dataset.
 * Errors, which send nothing: an empty dataset, an item of another type than these and
 * ACL_TENSOR_DATA_TENSOR, data at NULL, more than 512 GiB, another timeout than -1 for a channel of
 * acltdtCreateChannel 100000; data that was freed or leaves its allocation 107000; full, at once or
 * when the time is up, 207014; the user's limit or the memory is used up 207001; stopped 500001; no
 * process is left that could receive 507899.
 */
ACL_FUNC_VISIBILITY aclError acltdtSendTensor(const acltdtChannelHandle *handle,
                                              const acltdtDataset *dataset, int32_t timeout);

/*
 * Takes the next message into a dataset that is empty, or was filled by a receive; of a channel of
 * acltdtCreateChannel only into an empty one. timeout limits the wait for a message, as above.
 *
 * What the dataset has had before goes once a message was taken. Its items and their data, in host
 * memory, are the dataset's until the next receive into it that takes a message, its destruction,
 * or the end of the session (aclFinalize); the program may write to the data. The data is where the
 * sender has put it, in memory that both map, and holds that memory: a receiver that keeps many
 * datasets copies what it needs. A forked child does not have it. An item that is cut, in a message
 * above 256 MiB, is copied into memory of the dataset.
 * Errors: a dataset with items of the program, or with any for a channel of acltdtCreateChannel,
 * one that was not made to receive, another timeout than -1 for it 100000; empty, at once or when
 * the time is up, 207013; stopped, or a process that shares the message has damaged it (it is lost)
 * 500001; an item of a type that this library does not know 100026, and no memory to join what is
 * cut 200000 (the message is lost); no process is left that could send 507899.
 */
ACL_FUNC_VISIBILITY aclError acltdtReceiveTensor(const acltdtChannelHandle *handle,
                                                 acltdtDataset *dataset, int32_t timeout);

#ifdef __cplusplus
}
#endif

#endif
