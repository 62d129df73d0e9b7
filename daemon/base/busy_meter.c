#include "daemon/base/busy_meter.h"

#include "proto/util/clock.h"

#define BIN    (NSEC_PER_SEC / 10)
#define WINDOW ((BUSY_BINS - 1) * BIN)

static void fill_bins(struct busy_meter *meter, uint64_t from, uint64_t to)
{
    if (from + WINDOW + BIN < to)
        from = to - WINDOW - BIN;
    while (from < to) {
        uint64_t number = from / BIN;
        uint64_t end = (number + 1) * BIN < to ? (number + 1) * BIN : to;
        unsigned i = (unsigned)(number % BUSY_BINS);

        if (meter->bin[i].number != number) {
            meter->bin[i].number = number;
            meter->bin[i].ns = 0;
        }
        meter->bin[i].ns += end - from;
        from = end;
    }
}

static void count_running(struct busy_meter *meter, uint64_t now)
{
    if (meter->running == 0 || now <= meter->counted)
        return;
    fill_bins(meter, meter->counted, now);
    meter->counted = now;
}

void busy_meter_begin(struct busy_meter *meter, uint64_t now)
{
    if (meter->running++ == 0 && now > meter->counted)
        meter->counted = now;
}

void busy_meter_end(struct busy_meter *meter, uint64_t now)
{
    count_running(meter, now);
    meter->running--;
}

void busy_meter_add(struct busy_meter *meter, uint64_t from, uint64_t to)
{
    if (from < meter->counted)
        from = meter->counted;
    if (meter->running != 0 || from >= to)
        return;
    fill_bins(meter, from, to);
    meter->counted = to;
}

uint32_t busy_meter_percent(struct busy_meter *meter, uint64_t now)
{
    uint64_t number = now / BIN, busy = 0, of = WINDOW + now % BIN;

    count_running(meter, now);
    for (unsigned i = 0; i < BUSY_BINS; i++)
        if (meter->bin[i].number <= number && meter->bin[i].number + BUSY_BINS > number)
            busy += meter->bin[i].ns;
    return busy >= of ? 100 : (uint32_t)(busy * 100 / of);
}
