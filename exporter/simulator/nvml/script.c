/* Spans are found by halving, and each carries the sum of those before it: no call walks through a script. */
#include <stdlib.h>

#include "script.h"

#define ALL_PERCENT 100

/* Room for one more; doubled, since scripts are long. */
static bool reserve(void **array, size_t count, size_t *room, size_t size) {
    if (count < *room) {
        return true;
    }
    size_t wider = *room ? *room * 2 : 64;
    void *grown = realloc(*array, wider * size);
    if (grown == NULL) {
        return false;
    }
    *array = grown;
    *room = wider;
    return true;
}

static bool parse_next(const char **text, unsigned long long *value) {
    char *rest;
    *value = strtoull(*text, &rest, 10);
    bool found = rest != *text;
    *text = rest;
    return found;
}

static bool parse_pids(struct sim_track *track, struct sim_span *span, const char *text) {
    unsigned long long pid;
    span->first_pid = track->pid_count;
    while (parse_next(&text, &pid)) {
        if (!reserve((void **)&track->pids, track->pid_count, &track->pid_room, sizeof *track->pids)) {
            return false;
        }
        track->pids[track->pid_count++] = (unsigned int)pid;
    }
    span->pid_count = track->pid_count - span->first_pid;
    return *text == '\0' && span->pid_count > 0;
}

static unsigned long long busy_after(const struct sim_span *span) {
    return span->before + span->percent * (span->end_us - span->start_us);
}

bool parse_span(struct sim_track *track, const char *text) {
    struct sim_span span = {0};
    unsigned long long percent;
    if (!parse_next(&text, &span.start_us) || !parse_next(&text, &span.end_us) || !parse_next(&text, &percent)) {
        return false;
    }
    const struct sim_span *previous = track->span_count ? &track->spans[track->span_count - 1] : NULL;
    unsigned long long earliest = previous ? previous->end_us : 0;
    if (span.start_us < earliest || span.end_us <= span.start_us || percent == 0 || percent > ALL_PERCENT) {
        return false;
    }
    span.percent = (unsigned int)percent;
    span.before = previous ? busy_after(previous) : 0;
    if (!parse_pids(track, &span, text) ||
        !reserve((void **)&track->spans, track->span_count, &track->span_room, sizeof *track->spans)) {
        return false;
    }
    track->spans[track->span_count++] = span;
    return true;
}

const struct sim_track *find_track(const struct sim_device *device, unsigned long long gi) {
    for (size_t i = 0; i < device->track_count; i++) {
        if (device->tracks[i].gi.value == gi) {
            return &device->tracks[i];
        }
    }
    return NULL;
}

/* How many spans begin before a moment of the script. */
static size_t count_begun(const struct sim_track *track, unsigned long long moment) {
    size_t low = 0, high = track->span_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (track->spans[middle].start_us < moment) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static unsigned long long busy_in_script(const struct sim_track *track, unsigned long long moment) {
    size_t begun = count_begun(track, moment);
    if (begun == 0) {
        return 0;
    }
    const struct sim_span *last = &track->spans[begun - 1];
    unsigned long long end = last->end_us < moment ? last->end_us : moment;
    return last->before + last->percent * (end - last->start_us);
}

unsigned long long busy_until(const struct sim_track *track, unsigned long long time_us) {
    if (track == NULL || track->span_count == 0) {
        return 0;
    }
    if (track->period_us == 0) {
        return busy_in_script(track, time_us);
    }
    unsigned long long whole = busy_after(&track->spans[track->span_count - 1]);
    return time_us / track->period_us * whole + busy_in_script(track, time_us % track->period_us);
}

const struct sim_span *last_span(const struct sim_track *track, unsigned long long time_us, unsigned long long *end_us) {
    if (track->span_count == 0 || time_us == 0) {
        return NULL;
    }
    unsigned long long period = track->period_us, base = period ? (time_us - 1) / period * period : 0;
    size_t begun = count_begun(track, time_us - base);
    if (begun == 0) {
        if (base == 0) {
            return NULL;
        }
        base -= period;
        begun = track->span_count;
    }
    const struct sim_span *span = &track->spans[begun - 1];
    *end_us = base + span->end_us < time_us ? base + span->end_us : time_us;
    return span;
}

bool find_next_busy(const struct sim_track *track, unsigned long long time_us, unsigned long long *start_us) {
    if (track->span_count == 0) {
        return false;
    }
    unsigned long long base = track->period_us ? time_us / track->period_us * track->period_us : 0;
    size_t next = count_begun(track, time_us - base + 1);
    if (next > 0 && base + track->spans[next - 1].end_us > time_us) {
        *start_us = time_us;
        return true;
    }
    if (next == track->span_count) {
        base += track->period_us;
        next = 0;
    }
    *start_us = base + track->spans[next].start_us;
    return base > 0 || *start_us >= time_us;
}
