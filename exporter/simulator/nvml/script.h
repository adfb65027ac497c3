/* A scripted load as a function of time: how long something ran, when, and who. Times are the GPUs' clock. */
#ifndef STANDIN_SCRIPT_H
#define STANDIN_SCRIPT_H

#include "state.h"

/* Adds "start end percent pid ..." to the track. False: it is malformed, or not after the spans before it. */
bool parse_span(struct sim_track *track, const char *text);

/* The track of a GPU instance, or of the whole GPU (NVML_NO_INSTANCE). NULL: nothing runs there by the script. */
const struct sim_track *find_track(const struct sim_device *device, unsigned long long gi);

/* Time in which a kernel ran from the clock's zero until `time_us`, in percent times microseconds; 0 without a track. */
unsigned long long busy_until(const struct sim_track *track, unsigned long long time_us);

/* The last span that began before `time_us`, and when it ended: at `time_us` if it goes on. NULL: there is none. */
const struct sim_span *last_span(const struct sim_track *track, unsigned long long time_us, unsigned long long *end_us);

/* False: from `time_us` on nothing runs any more. */
bool find_next_busy(const struct sim_track *track, unsigned long long time_us, unsigned long long *start_us);

#endif
