/*
 * The secondary process: attaches to the queues that the primary lets it use, takes a picture out
 * of one of them, reads it where it is, in the primary's memory, and puts its answer into the
 * other. usage: secondary DIR
 */
#include "shared_buffer.h"

/* The primary grants it in a moment: this call waits for that, and no longer than WAIT_MS. */
static void queue_attach(uint32_t queue)
{
    uint32_t rights;

    CHECK(acltdtAttachQueue(queue, WAIT_MS, &rights));
    say("attached to queue %u: may%s%s%s", queue,
        rights & ACL_TDT_QUEUE_PERMISSION_MANAGE ? " manage it" : "",
        rights & ACL_TDT_QUEUE_PERMISSION_DEQUEUE ? " take messages" : "",
        rights & ACL_TDT_QUEUE_PERMISSION_ENQUEUE ? " put messages" : "");
}

static struct queues queues_open(const char *dir)
{
    struct queues queues;
    int32_t pid;

    /*
     * The pid that the primary grants to, also when one of the two is in a container: not always
     * getpid().
     */
    CHECK(aclrtDeviceGetBareTgid(&pid));
    file_write(dir, "pid", 0, &pid, sizeof(pid));
    signal_wait(dir, "made", 0);
    file_read(dir, "queues", 0, &queues, sizeof(queues));
    REFUSED(ACL_ERROR_RT_NO_PERMISSION, acltdtAttachQueue(queues.jobs, 0, &(uint32_t){0}));
    say("waiting for the grants");
    signal_send(dir, "attaching", 0);
    queue_attach(queues.jobs);
    queue_attach(queues.answers);
    return queues;
}

static struct result picture_look(const unsigned char *data, uint32_t width, uint32_t height)
{
    struct result r = {0};
    uint64_t sum = 0;

    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++) {
            unsigned char c = data[(size_t)y * width + x];

            sum += c;
            if (c > r.brightest) {
                r.brightest = c;
                r.x = x;
                r.y = y;
            }
        }
    r.average = (double)sum / ((double)width * height);
    return r;
}

/*
 * What a message says of itself is what the other process wrote: it is checked before it is used.
 */
static struct result job_do(acltdtBuf buf, struct job *job)
{
    size_t length, room;
    void *data;

    CHECK(acltdtGetBufDataLen(buf, &length));
    CHECK(acltdtGetBufUserData(buf, job, sizeof(*job), 0));
    if (length != (size_t)job->width * job->height)
        fail("a picture of %u x %u points in %zu bytes", job->width, job->height, length);
    CHECK(acltdtGetBufData(buf, &data, &room));
    say("job %u: %u x %u points, %zu bytes of data in a buffer of %zu", job->number, job->width,
        job->height, length, room);
    return picture_look(data, job->width, job->height);
}

static void answer_send(uint32_t queue, uint32_t number, const struct result *result)
{
    struct answer answer = {.number = number};
    acltdtBuf buf;
    void *data;
    size_t room;

    CHECK(acltdtAllocBuf(sizeof(*result), ACL_TDT_NORMAL_MEM, &buf));
    CHECK(acltdtGetBufData(buf, &data, &room));
    memcpy(data, result, sizeof(*result));
    CHECK(acltdtSetBufDataLen(buf, sizeof(*result)));
    CHECK(acltdtSetBufUserData(buf, &answer, sizeof(answer), 0));
    CHECK(acltdtEnqueue(queue, buf, WAIT_MS));
    say("answer to job %u is in queue %u", number, queue);
}

int main(int argc, char **argv)
{
    struct queues queues;
    struct result result;
    struct job job;
    acltdtBuf buf;

    set_name("secondary");
    if (argc != 2)
        fail("usage: secondary DIR");
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    queues = queues_open(argv[1]);

    CHECK(acltdtDequeue(queues.jobs, &buf, WAIT_MS));
    result = job_do(buf, &job);
    /* It may take jobs; to put one it has no right. The buffer stays with it. */
    REFUSED(ACL_ERROR_RT_NO_PERMISSION, acltdtEnqueue(queues.jobs, buf, 0));
    CHECK(acltdtFreeBuf(buf));
    answer_send(queues.answers, job.number, &result);

    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize()); /* its attachments end; the answer stays in the queue until it is taken */
    say("cleaned up");
    signal_send(argv[1], "done", 0);
    return 0;
}
