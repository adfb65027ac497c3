/* Ten seconds are cut into 72 slots at whole multiples, so that a slot's number says when it was. */
#include <string.h>

#include "ring.h"

#define RING_US 10000000u

typedef unsigned __int128 wide; /* A time multiplied by the number of slots may need more than 64 bits. */

unsigned long long slot_start(unsigned long long number) {
    return (unsigned long long)((wide)number * RING_US / RING_SLOTS);
}

/* The highest number whose start, rounded down to whole microseconds, is not after the moment. */
unsigned long long slot_at(unsigned long long time_us) {
    return (unsigned long long)((((wide)time_us + 1) * RING_SLOTS - 1) / RING_US);
}

unsigned long long first_slot(const struct target *at) {
    unsigned long long number = slot_at(at->origin_us);
    return slot_start(number) == at->origin_us ? number : number + 1;
}

/* The same for the same slot and GPU for ever, and as good as random between them. */
static unsigned long long hash(const struct text *uuid, unsigned long long number) {
    unsigned long long value = 14695981039346656037ULL;
    for (size_t i = 0; i < uuid->length; i++) {
        value = (value ^ (unsigned char)uuid->bytes[i]) * 1099511628211ULL;
    }
    value += (number + 1) * 0x9E3779B97F4A7C15ULL;
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ULL;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBULL;
    return value ^ (value >> 31);
}

struct slot read_slot(const struct sim_device *device, const struct sim_track *track, unsigned long long number) {
    unsigned long long start = slot_start(number), length = slot_start(number + 1) - start, ended;
    struct slot slot = {.number = number, .end_us = start + length};
    const struct sim_span *span = last_span(track, slot.end_us, &ended);
    if (span == NULL || ended <= start) {
        return slot;
    }
    slot.busy = true;
    slot.percent = (unsigned int)((busy_until(track, slot.end_us) - busy_until(track, start) + length / 2) / length);
    slot.pid = track->pids[span->first_pid + hash(&device->uuid, number) % span->pid_count];
    return slot;
}

/* The number after the last slot below `limit` in which a kernel ran; 0: there is none. */
static unsigned long long after_last_busy(const struct sim_track *track, unsigned long long limit) {
    unsigned long long ended;
    return last_span(track, slot_start(limit), &ended) == NULL ? 0 : slot_at(ended - 1) + 1;
}

size_t read_ring(const struct target *at, struct slot ring[RING_SLOTS]) {
    const struct sim_track *track = find_track(at->device, NVML_NO_INSTANCE);
    bool rests = at->device->ring_rests.value;
    unsigned long long first = first_slot(at), limit = slot_at(at->now_us);
    size_t count = 0;
    while (track != NULL && count < RING_SLOTS && limit > first) {
        struct slot slot = read_slot(at->device, track, limit - 1);
        if (slot.busy || !rests) {
            ring[RING_SLOTS - ++count] = slot;
            limit--;
        } else {
            limit = after_last_busy(track, limit - 1);
        }
    }
    memmove(ring, ring + RING_SLOTS - count, count * sizeof *ring);
    return count;
}

struct slot read_last_slot(const struct target *at) {
    const struct sim_track *track = find_track(at->device, NVML_NO_INSTANCE);
    unsigned long long limit = slot_at(at->now_us);
    if (track == NULL || limit <= first_slot(at)) {
        return (struct slot){0};
    }
    return read_slot(at->device, track, limit - 1);
}
