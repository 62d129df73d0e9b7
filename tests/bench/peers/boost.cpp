/* Boost.Interprocess: two message_queues in shared memory. */
#include "tests/bench/peers/peers.h"

#include <boost/interprocess/ipc/message_queue.hpp>
#include <string>
#include <unistd.h>

using namespace boost::interprocess;

static message_queue *queues[2];

static void prepare_boost()
{
    for (int i = 0; i < 2; i++) {
        std::string name = "npud-peers-" + std::to_string(getpid()) + "-" + std::to_string(i);

        queues[i] = new message_queue(create_only, name.c_str(), 8, MESSAGE);
        message_queue::remove(name.c_str()); /* mapped, and inherited */
    }
}

static void begin_boost(bool, int)
{
}

static void send_boost(bool first, const void *message)
{
    queues[!first]->send(message, MESSAGE, 0);
}

static void receive_boost(bool first, void *message)
{
    message_queue::size_type got;
    unsigned priority;

    queues[first]->receive(message, MESSAGE, got, priority);
}

extern "C" const struct peer peer_boost = {"Boost message_queue", prepare_boost, begin_boost,
                                           send_boost, receive_boost};
