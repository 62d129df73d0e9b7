#include "tests/bench/peers/peers.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 60
#define TRIPS  200
#define WARM   20

static const struct peer *const peers[] = {
    &peer_npud_buffer, &peer_npud_bytes, &peer_pipe,    &peer_socket,
    &peer_mq,          &peer_boost,      &peer_nanomsg, &peer_zmq,
};

#define N_PEERS (sizeof(peers) / sizeof(peers[0]))

static double now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

void peers_check(bool ok, const char *what)
{
    if (ok)
        return;
    perror(what);
    exit(1);
}

static _Noreturn void answer_for_ever(const struct peer *p)
{
    char message[MESSAGE];

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    p->begin(false, 0);
    for (;;) {
        p->receive(false, message);
        p->send(false, message);
    }
}

static pid_t start_peer(const struct peer *p)
{
    pid_t pid;

    p->prepare();
    pid = fork();
    peers_check(pid >= 0, "fork");
    if (pid == 0)
        answer_for_ever(p);
    return pid;
}

static void make_trips(const struct peer *p, unsigned n)
{
    char message[MESSAGE] = "ping", back[MESSAGE] = "";

    for (unsigned i = 0; i < n; i++) {
        p->send(true, message);
        p->receive(true, back);
        peers_check(memcmp(message, back, MESSAGE) == 0, p->name);
    }
}

static double trip_ns(const struct peer *p)
{
    double start;

    make_trips(p, WARM);
    start = now_ns();
    make_trips(p, TRIPS);
    return (now_ns() - start) / TRIPS;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median_of(double *samples)
{
    qsort(samples, ROUNDS, sizeof(*samples), compare_doubles);
    return samples[ROUNDS / 2];
}

#define LOOPS 10000u

double peers_median(void (*once)(void))
{
    double samples[ROUNDS], start;

    for (unsigned r = 0; r < ROUNDS; r++) {
        start = now_ns();
        for (unsigned i = 0; i < LOOPS; i++)
            once();
        samples[r] = (now_ns() - start) / LOOPS;
    }
    return median_of(samples);
}

static void emit_line(FILE *json, const char *what, const char *peer, double ns)
{
    static const char *comma = "";

    printf("%-42s %-24s %10.1f ns\n", what, peer, ns);
    fprintf(json, "%s\n  {\"what\": \"%s\", \"peer\": \"%s\", \"ns\": %.1f}", comma, what, peer,
            ns);
    comma = ",";
}

static void measure_trips(FILE *json)
{
    static double samples[N_PEERS][ROUNDS];
    pid_t pids[N_PEERS] = {0};

    for (size_t i = 0; i < N_PEERS; i++)
        if (peers[i])
            pids[i] = start_peer(peers[i]);
    /* After the last fork: npud's library has nothing in a child of its process. */
    for (size_t i = 0; i < N_PEERS; i++)
        if (peers[i])
            peers[i]->begin(true, pids[i]);
    /* They take turns: what else the machine does meets all of them. */
    for (unsigned r = 0; r < ROUNDS; r++)
        for (size_t i = 0; i < N_PEERS; i++)
            if (peers[i])
                samples[i][r] = trip_ns(peers[i]);
    for (size_t i = 0; i < N_PEERS; i++) {
        if (!peers[i])
            continue;
        emit_line(json, "64 bytes there and back, both asleep", peers[i]->name,
                  median_of(samples[i]));
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
    }
}

static void emit_pair(FILE *json, const char *buffer, const char *ring, struct pair_cost cost)
{
    emit_line(json, "a buffer, allocated and freed", buffer, cost.buffer);
    emit_line(json, "a buffer, put and taken by one thread", ring, cost.ring);
}

int main(int argc, char **argv)
{
    FILE *json = argc == 2 ? fopen(argv[1], "w") : NULL;

    if (!json) {
        fprintf(stderr, "usage: peers FILE.json\n");
        return 2;
    }
    fprintf(json, "[");
    measure_trips(json);
    emit_pair(json, "npud buffer", "npud queue", npud_measure());
    if (dpdk_measure)
        emit_pair(json, "DPDK mbuf", "DPDK ring", dpdk_measure());
    fprintf(json, "\n]\n");
    return fclose(json) != 0;
}
