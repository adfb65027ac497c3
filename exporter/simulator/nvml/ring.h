/* The driver's ring of utilisation samples, as it follows from a scripted load. Times are the GPUs' clock. */
#ifndef STANDIN_RING_H
#define STANDIN_RING_H

#include "gate.h"
#include "script.h"

#define RING_SLOTS 72

struct slot {
    unsigned long long number, end_us;
    unsigned int percent; /* Of the slot, rounded. */
    bool busy;            /* A kernel ran in it, though percent may be 0. */
    unsigned int pid;     /* The one process that it names; 0 unless busy. */
};

/* The slot that a moment lies in. Those with a lower number are complete by then. */
unsigned long long slot_at(unsigned long long time_us);
unsigned long long slot_start(unsigned long long number);

/* The first slot that is all after the driver was loaded. */
unsigned long long first_slot(const struct target *at);

struct slot read_slot(const struct sim_device *device, const struct sim_track *track, unsigned long long number);

/* The slots that the ring holds now, oldest first; the answer is how many. */
size_t read_ring(const struct target *at, struct slot ring[RING_SLOTS]);

/* The last complete slot, whether or not it is recorded. */
struct slot read_last_slot(const struct target *at);

#endif
