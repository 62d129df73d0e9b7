/*
 * The primary process: makes two queues, puts a picture into one of them in a shared buffer, lets
 * the secondary process use both, and takes its answer from the other. Between the two processes no
 * byte of the picture is copied. usage: primary DIR
 */
#include "shared_buffer.h"

#define WIDTH  1920
#define HEIGHT 1080
#define DEPTH  4 /* messages that a queue holds */

static unsigned char picture[HEIGHT][WIDTH];

static uint32_t queue_make(const char *name)
{
    acltdtQueueAttr *attr = acltdtCreateQueueAttr();
    uint32_t depth = DEPTH, queue;

    if (!attr)
        fail("no memory for the attributes of a queue");
    /* The name is a pointer, so what is passed is the address of that pointer, and its size. */
    CHECK(acltdtSetQueueAttr(attr, ACL_TDT_QUEUE_NAME_PTR, sizeof(name), &name));
    CHECK(acltdtSetQueueAttr(attr, ACL_TDT_QUEUE_DEPTH_UINT32, sizeof(depth), &depth));
    CHECK(acltdtCreateQueue(attr, &queue));
    CHECK(acltdtDestroyQueueAttr(attr));
    say("queue %u (\"%s\") made for %u messages", queue, name, depth);
    return queue;
}

static void picture_paint(void)
{
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++)
            picture[y][x] = (unsigned char)((x + y) % 200);
    picture[HEIGHT / 3][WIDTH / 2] = 255;
}

static acltdtBuf job_make(uint32_t number)
{
    struct job job = {.number = number, .width = WIDTH, .height = HEIGHT};
    acltdtBuf buf;
    void *data;
    size_t room;

    CHECK(acltdtAllocBuf(sizeof(picture), ACL_TDT_NORMAL_MEM, &buf));
    CHECK(acltdtGetBufData(buf, &data, &room));
    CHECK(aclrtMemcpy(data, room, picture, sizeof(picture), ACL_MEMCPY_HOST_TO_DEVICE));
    CHECK(acltdtSetBufDataLen(buf, sizeof(picture)));
    CHECK(acltdtSetBufUserData(buf, &job, sizeof(job), 0));
    say("job %u is in a buffer: %zu bytes of data, %zu of user data", number, sizeof(picture),
        sizeof(job));
    return buf;
}

/* From the enqueue on the queue owns the buffer, and then the process that takes it out. */
static void job_send(uint32_t queue, uint32_t number)
{
    acltdtBuf buf = job_make(number);
    size_t length;

    CHECK(acltdtEnqueue(queue, buf, WAIT_MS));
    say("job %u is in queue %u", number, queue);
    REFUSED(ACL_ERROR_RT_PARAM_INVALID, acltdtGetBufDataLen(buf, &length));
}

/*
 * The secondary may take jobs and put answers, and nothing else. A grant is for the process that
 * has this pid now: a later process with the same pid has none.
 */
static void queues_grant(const struct queues *queues, int32_t pid)
{
    CHECK(acltdtGrantQueue(queues->jobs, pid, ACL_TDT_QUEUE_PERMISSION_DEQUEUE, 0));
    CHECK(acltdtGrantQueue(queues->answers, pid, ACL_TDT_QUEUE_PERMISSION_ENQUEUE, 0));
    say("process %d may take from queue %u and put into queue %u", pid, queues->jobs,
        queues->answers);
}

static void answer_check(const struct answer *answer, const struct result *r, uint32_t number)
{
    if (answer->number != number)
        fail("answer to job %u in place of %u", answer->number, number);
    if (r->brightest != 255 || r->x != WIDTH / 2 || r->y != HEIGHT / 3)
        fail("the brightest point is not %u at %u, %u", r->brightest, r->x, r->y);
    say("answer to job %u: average %.1f, brightest point %u at %u, %u", number, r->average,
        r->brightest, r->x, r->y);
}

static void answer_receive(uint32_t queue, uint32_t number)
{
    struct answer answer;
    size_t length, room;
    acltdtBuf buf;
    void *data;

    CHECK(acltdtDequeue(queue, &buf, WAIT_MS));
    CHECK(acltdtGetBufDataLen(buf, &length));
    if (length != sizeof(struct result))
        fail("an answer of %zu bytes", length);
    CHECK(acltdtGetBufData(buf, &data, &room));
    CHECK(acltdtGetBufUserData(buf, &answer, sizeof(answer), 0));
    answer_check(&answer, data, number);
    CHECK(acltdtFreeBuf(buf)); /* memory of the secondary's pool, to which it returns */
}

int main(int argc, char **argv)
{
    struct queues queues;
    int32_t pid;

    set_name("primary");
    if (argc != 2)
        fail("usage: primary DIR");
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    queues.jobs = queue_make("jobs");
    queues.answers = queue_make("answers");
    picture_paint();
    job_send(queues.jobs, 1);

    /* run.sh shows what npuctl says of all this. */
    signal_send(argv[1], "look", 0);
    signal_wait(argv[1], "looked", 0);

    file_write(argv[1], "queues", 0, &queues, sizeof(queues));
    signal_send(argv[1], "made", 0);
    signal_wait(argv[1], "attaching", 0);
    file_read(argv[1], "pid", 0, &pid, sizeof(pid));
    queues_grant(&queues, pid);
    answer_receive(queues.answers, 1);
    signal_wait(argv[1], "done", 0);

    CHECK(acltdtDestroyQueue(queues.answers));
    CHECK(acltdtDestroyQueue(queues.jobs));
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    say("cleaned up");
    return 0;
}
