/*
 * Accounting mode. Each slot of the ring adds its percent to the process that it names. Sums are kept from call to call,
 * so that each slot is looked at once for as long as the state stays as it is.
 */
#include <stdlib.h>

#include "accounting.h"
#include "ring.h"

/* As the driver has it: 3872 processes that run and 128 that are gone. */
#define BUFFER_SIZE 4000
/* NVML tells percent with two digits after the point. */
#define FINE_PER_PERCENT 100
#define US_PER_MS 1000

struct tally_entry {
    unsigned int pid;
    bool named;                             /* By any slot so far. */
    unsigned long long start_us, end_us;    /* Of its first and last span in the script. */
    unsigned long long sum_percent, before; /* Slots that were recorded before the first one that names it. */
};

struct tally {
    unsigned long long next_slot, recorded;
    size_t count;
    struct tally_entry entries[]; /* By pid. */
};

static int by_pid(const void *a, const void *b) {
    unsigned int left = *(const unsigned int *)a, right = *(const unsigned int *)b;
    return left < right ? -1 : left > right;
}

static struct tally_entry *find_entry(struct tally *tally, unsigned int pid) {
    return bsearch(&pid, tally->entries, tally->count, sizeof *tally->entries, by_pid);
}

struct tally *new_tally(const struct sim_track *track) {
    struct tally *tally = calloc(1, sizeof *tally + track->pid_count * sizeof *tally->entries);
    if (tally == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < track->pid_count; i++) {
        tally->entries[i].pid = track->pids[i];
    }
    qsort(tally->entries, track->pid_count, sizeof *tally->entries, by_pid);
    for (size_t i = 0; i < track->pid_count; i++) {
        if (tally->count == 0 || tally->entries[tally->count - 1].pid != tally->entries[i].pid) {
            tally->entries[tally->count++].pid = tally->entries[i].pid;
        }
    }
    for (size_t i = 0; i < track->span_count; i++) {
        const struct sim_span *span = &track->spans[i];
        for (size_t j = 0; j < span->pid_count; j++) {
            struct tally_entry *entry = find_entry(tally, track->pids[span->first_pid + j]);
            entry->start_us = entry->end_us == 0 ? span->start_us : entry->start_us;
            entry->end_us = span->end_us;
        }
    }
    return tally;
}

static void add_slot(struct tally *tally, const struct slot *slot) {
    struct tally_entry *entry = slot->busy ? find_entry(tally, slot->pid) : NULL;
    if (entry != NULL) {
        entry->before = entry->named ? entry->before : tally->recorded;
        entry->named = true;
        entry->sum_percent += slot->percent;
    }
    tally->recorded++;
}

static void begin_anew(struct tally *tally, unsigned long long first) {
    tally->next_slot = first;
    tally->recorded = 0;
    for (size_t i = 0; i < tally->count; i++) {
        tally->entries[i].named = false;
        tally->entries[i].sum_percent = tally->entries[i].before = 0;
    }
}

/* Adds the slots that were completed since; begins anew if the clock went back. */
static void catch_up(const struct target *at) {
    const struct sim_track *track = find_track(at->device, NVML_NO_INSTANCE);
    struct tally *tally = at->device->tally;
    unsigned long long limit = slot_at(at->now_us), start;
    if (tally->next_slot > limit || tally->next_slot < first_slot(at)) {
        begin_anew(tally, first_slot(at));
    }
    while (tally->next_slot < limit) {
        struct slot slot = read_slot(at->device, track, tally->next_slot);
        if (slot.busy || !at->device->ring_rests.value) {
            add_slot(tally, &slot);
            tally->next_slot++;
            continue;
        }
        bool more = find_next_busy(track, slot.end_us, &start);
        tally->next_slot = more && slot_at(start) < limit ? slot_at(start) : limit;
    }
}

/* Locks if it succeeds: forced off in MIG mode, and a physical GPU's alone. */
static nvmlReturn_t enter_accounted(const char *symbol, nvmlDevice_t handle, struct target *at) {
    nvmlReturn_t result = enter_gpu(symbol, handle, at);
    if (result != NVML_SUCCESS) {
        return result;
    }
    return at->device->accounting.value && !mig_enabled(at->device) ? result : leave(NVML_ERROR_NOT_SUPPORTED);
}

NVML_API nvmlReturn_t nvmlDeviceGetAccountingMode(nvmlDevice_t handle, unsigned int *mode) {
    struct target at;
    nvmlReturn_t result = enter_gpu(__func__, handle, &at);
    if (result != NVML_SUCCESS) {
        return result;
    }
    if (mode == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    *mode = at.device->accounting.value && !mig_enabled(at.device);
    return leave(NVML_SUCCESS);
}

NVML_API nvmlReturn_t nvmlDeviceGetAccountingBufferSize(nvmlDevice_t handle, unsigned int *size) {
    struct target at;
    nvmlReturn_t result = enter_gpu(__func__, handle, &at);
    if (result != NVML_SUCCESS) {
        return result;
    }
    if (size == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    *size = BUFFER_SIZE;
    return leave(NVML_SUCCESS);
}

static const struct sim_process *find_process(const struct sim_device *device, unsigned int pid) {
    for (size_t i = 0; i < device->process_count; i++) {
        if (device->processes[i].pid.value == pid) {
            return &device->processes[i];
        }
    }
    return NULL;
}

/* NULL: the script names no such process, or it has not begun yet. */
static const struct tally_entry *find_begun(const struct target *at, unsigned int pid) {
    const struct tally_entry *entry = at->device->tally == NULL ? NULL : find_entry(at->device->tally, pid);
    return entry != NULL && entry->start_us <= at->now_us ? entry : NULL;
}

/* Fills as many as there is room for; the answer is how many there are: those that have begun, and others that are there. */
static unsigned int fill_pids(const struct target *at, unsigned int *pids, unsigned int room) {
    const struct tally *tally = at->device->tally;
    unsigned int count = 0;
    for (size_t i = 0; tally != NULL && i < tally->count; i++) {
        if (tally->entries[i].start_us <= at->now_us && count++ < room) {
            pids[count - 1] = tally->entries[i].pid;
        }
    }
    for (size_t i = 0; i < at->device->process_count; i++) {
        unsigned int pid = (unsigned int)at->device->processes[i].pid.value;
        if (find_begun(at, pid) == NULL && count++ < room) {
            pids[count - 1] = pid;
        }
    }
    return count;
}

NVML_API nvmlReturn_t nvmlDeviceGetAccountingPids(nvmlDevice_t handle, unsigned int *count, unsigned int *pids) {
    struct target at;
    nvmlReturn_t result = enter_accounted(__func__, handle, &at);
    if (result != NVML_SUCCESS) {
        return result;
    }
    if (count == NULL || (*count > 0 && pids == NULL)) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    unsigned int room = *count;
    *count = fill_pids(&at, pids, room);
    return leave(*count <= room ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE);
}

static void fill_stats(const struct target *at, const struct tally_entry *entry, nvmlAccountingStats_v2_t *stats) {
    if (entry->named) {
        stats->sampleCount = (unsigned int)(at->device->tally->recorded - entry->before);
        stats->sumGpuUtil = entry->sum_percent * FINE_PER_PERCENT;
        stats->gpuUtilization = (unsigned int)((entry->sum_percent + stats->sampleCount / 2) / stats->sampleCount);
    }
    stats->startTime = entry->start_us > at->origin_us ? entry->start_us : at->origin_us;
    if (!stats->isRunning && entry->end_us <= at->now_us) {
        stats->time = (entry->end_us - entry->start_us) / US_PER_MS;
    }
}

/* The struct bears no version: the caller sets the pid in it. Samples count from the first that names the process. */
NVML_API nvmlReturn_t nvmlDeviceGetAccountingStats_v2(nvmlDevice_t handle, nvmlAccountingStats_v2_t *stats) {
    struct target at;
    nvmlReturn_t result = enter_accounted(__func__, handle, &at);
    if (result != NVML_SUCCESS) {
        return result;
    }
    if (stats == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    const struct sim_process *process = find_process(at.device, stats->pid);
    const struct tally_entry *entry = find_begun(&at, stats->pid);
    if (process == NULL && entry == NULL) {
        return leave(NVML_ERROR_NOT_FOUND);
    }
    *stats = (nvmlAccountingStats_v2_t){.pid = stats->pid, .isRunning = process != NULL};
    stats->maxMemoryUsage = process == NULL ? 0 : process->memory.value;
    if (entry != NULL) {
        catch_up(&at);
        fill_stats(&at, entry, stats);
    }
    return leave(NVML_SUCCESS);
}
