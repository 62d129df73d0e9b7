/*
 * How near to each other two processors are. The host may put both on one core, where a spinning
 * round trip between them takes about 0.1 us, or on two, where it takes about 0.5 us; and it may
 * change its mind.
 */
#pragma once

#define NEAR_NS_MAX 250.0

enum place { NEAR, FAR, PLACES };

/** A spinning round trip between the first two processors, in ns. 0: there is only one. */
double placement_measure(void);

/** What such a round trip says. */
enum place placement_of(double spin_ns);

/** A line about it. */
void placement_print(void);
