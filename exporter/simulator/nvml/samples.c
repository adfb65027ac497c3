/* Calls about what was sampled: the ring, and the parts of it that processes have. */
#include <stdlib.h>

#include "ring.h"

/* Locks if it succeeds: only a physical GPU without MIG mode is sampled. */
static nvmlReturn_t enter_sampled(const char *symbol, nvmlDevice_t handle, struct target *at) {
    nvmlReturn_t result = enter_gpu(symbol, handle, at);
    return result == NVML_SUCCESS && mig_enabled(at->device) ? leave(NVML_ERROR_NOT_SUPPORTED) : result;
}

/* A process as both utilisation calls tell of it. */
struct usage {
    unsigned int pid, sm;
    unsigned long long timestamp;
};

struct usages {
    struct usage *items;
    size_t count;
};

/*
 * Without a script, what the state says of each process. A timestamp that the state sets is told even when it is older
 * than asked for: drivers are known to do so.
 */
static void collect_given(const struct target *at, unsigned long long last_seen, struct usages *usages) {
    for (size_t i = 0; i < at->device->process_count; i++) {
        const struct sim_process *process = &at->device->processes[i];
        unsigned long long timestamp = process->sm_timestamp.known ? process->sm_timestamp.value : at->now_us;
        if (process->sm.known && (process->sm_timestamp.known || timestamp > last_seen)) {
            usages->items[usages->count++] =
                (struct usage){(unsigned int)process->pid.value, (unsigned int)process->sm.value, timestamp};
        }
    }
}

static struct usage *usage_of(struct usages *usages, unsigned int pid) {
    for (size_t i = 0; i < usages->count; i++) {
        if (usages->items[i].pid == pid) {
            return &usages->items[i];
        }
    }
    usages->items[usages->count] = (struct usage){.pid = pid};
    return &usages->items[usages->count++];
}

/* Each process has the percents of its own slots, over the number of all of them. */
static void collect_slots(const struct target *at, unsigned long long last_seen, struct usages *usages) {
    struct slot ring[RING_SLOTS];
    size_t count = read_ring(at, ring);
    unsigned int slots = 0;
    for (size_t i = 0; i < count; i++) {
        if (ring[i].end_us <= last_seen) {
            continue;
        }
        slots++;
        if (ring[i].busy) {
            struct usage *usage = usage_of(usages, ring[i].pid);
            usage->sm += ring[i].percent;
            usage->timestamp = ring[i].end_us;
        }
    }
    for (size_t i = 0; i < usages->count; i++) {
        usages->items[i].sm = (usages->items[i].sm + slots / 2) / slots;
    }
}

/*
 * What there is to tell to somebody who has seen `last_seen`, for the caller to free if it succeeds. Without room for it
 * the answer asks for some, whether or not there is anything to tell.
 */
static nvmlReturn_t collect(const struct target *at, bool has_array, unsigned int *room, unsigned long long last_seen,
                            struct usages *usages) {
    size_t most = at->device->process_count > RING_SLOTS ? at->device->process_count : RING_SLOTS;
    *usages = (struct usages){malloc(most * sizeof *usages->items), 0};
    if (usages->items == NULL) {
        return NVML_ERROR_MEMORY;
    }
    if (at->device->track_count > 0) {
        collect_slots(at, last_seen, usages);
    } else {
        collect_given(at, last_seen, usages);
    }
    nvmlReturn_t result = usages->count == 0 ? NVML_ERROR_NOT_FOUND : NVML_SUCCESS;
    if (!has_array || *room < usages->count) {
        *room = usages->count > RING_SLOTS ? (unsigned int)usages->count : RING_SLOTS;
        result = NVML_ERROR_INSUFFICIENT_SIZE;
    }
    if (result != NVML_SUCCESS) {
        free(usages->items);
    }
    return result;
}

NVML_API nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t handle, nvmlProcessUtilizationSample_t *samples,
                                                      unsigned int *count, unsigned long long last_seen) {
    struct target at;
    nvmlReturn_t result = enter_sampled(__func__, handle, &at);
    if (result != NVML_SUCCESS) {
        return result;
    }
    if (count == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    struct usages usages;
    result = collect(&at, samples != NULL, count, last_seen, &usages);
    if (result != NVML_SUCCESS) {
        return leave(result);
    }
    *count = (unsigned int)usages.count;
    for (size_t i = 0; i < usages.count; i++) {
        const struct usage *usage = &usages.items[i];
        samples[i] =
            (nvmlProcessUtilizationSample_t){.pid = usage->pid, .timeStamp = usage->timestamp, .smUtil = usage->sm};
    }
    free(usages.items);
    return leave(NVML_SUCCESS);
}

NVML_API nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t handle, nvmlProcessesUtilizationInfo_v1_t *info) {
    struct target at;
    nvmlReturn_t result = enter_sampled(__func__, handle, &at);
    if (result != NVML_SUCCESS) {
        return result;
    }
    if (info == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    if (info->version != NVML_PROCESSES_UTILIZATION_V1) {
        return leave(NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    }
    struct usages usages;
    result = collect(&at, info->procUtilArray != NULL, &info->processSamplesCount, info->lastSeenTimeStamp, &usages);
    if (result != NVML_SUCCESS) {
        return leave(result);
    }
    info->processSamplesCount = (unsigned int)usages.count;
    for (size_t i = 0; i < usages.count; i++) {
        const struct usage *usage = &usages.items[i];
        info->procUtilArray[i] =
            (nvmlProcessUtilizationInfo_v1_t){.timeStamp = usage->timestamp, .pid = usage->pid, .smUtil = usage->sm};
    }
    free(usages.items);
    return leave(NVML_SUCCESS);
}

static nvmlSample_t sample_of(unsigned long long timestamp, unsigned int value) {
    nvmlSample_t sample = {.timeStamp = timestamp};
    sample.sampleValue.uiVal = value;
    return sample;
}

/* As the state has them, whatever was seen before. */
static unsigned int fill_verbatim(const struct sim_device *device, nvmlSample_t *samples, unsigned int room) {
    unsigned int count = 0;
    for (; count < device->sample_count && count < room; count++) {
        const struct sim_sample *given = &device->samples[count];
        samples[count] = sample_of(given->timestamp.value, (unsigned int)given->value.value);
    }
    return count;
}

static unsigned int fill_newer(const struct target *at, unsigned long long last_seen, nvmlSample_t *samples,
                               unsigned int room) {
    struct slot ring[RING_SLOTS];
    size_t slots = read_ring(at, ring);
    unsigned int count = 0;
    for (size_t i = 0; i < slots && count < room; i++) {
        if (ring[i].end_us > last_seen) {
            samples[count++] = sample_of(ring[i].end_us, ring[i].percent);
        }
    }
    return count;
}

/*
 * The ring of GPU utilisation; those of other engines have nothing to tell, nor has this one without a script. Without
 * an array the answer is how many entries may come. With too little room the oldest are given, and the rest is newer.
 */
NVML_API nvmlReturn_t nvmlDeviceGetSamples(nvmlDevice_t handle, unsigned int type, unsigned long long last_seen,
                                           unsigned int *value_type, unsigned int *count, nvmlSample_t *samples) {
    struct target at;
    nvmlReturn_t result = enter_sampled(__func__, handle, &at);
    if (result != NVML_SUCCESS) {
        return result;
    }
    if (value_type == NULL || count == NULL || (samples != NULL && *count == 0)) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    bool verbatim = at.device->verbatim_ring.value;
    nvmlSample_t first;
    nvmlSample_t *into = samples ? samples : &first;
    unsigned int room = samples ? *count : 1, filled = 0;
    if (type == NVML_GPU_UTILIZATION_SAMPLES) {
        filled = verbatim ? fill_verbatim(at.device, into, room) : fill_newer(&at, last_seen, into, room);
    }
    if (filled == 0) {
        return leave(NVML_ERROR_NOT_FOUND);
    }
    *value_type = NVML_VALUE_TYPE_UNSIGNED_INT;
    size_t capacity = verbatim && at.device->sample_count > RING_SLOTS ? at.device->sample_count : RING_SLOTS;
    *count = samples ? filled : (unsigned int)capacity;
    return leave(NVML_SUCCESS);
}
