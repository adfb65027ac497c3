/* Calls about the processes on a device, and about what was sampled. */
#include <stddef.h>

#include "gate.h"

/* The size that the driver asks for at first, whatever it has to tell. */
#define SAMPLE_SLOTS 72

/* The GPU's handle shows all of its processes, a MIG handle those of its instance. */
static bool is_shown(const struct target *at, const struct sim_process *process) {
    if (at->mig == NULL) {
        return true;
    }
    bool same_ci = process->ci.value == at->mig->ci.value || process->ci.value == NVML_NO_INSTANCE;
    return process->gi.value == at->mig->gi.value && same_ci;
}

/* Fills as many records as there is room for; the answer is how many there are. `list` is the member that says "listed". */
static unsigned int fill_records(const struct target *at, size_t list, nvmlProcessInfo_t *records, unsigned int room) {
    unsigned int count = 0;
    for (size_t i = 0; i < at->device->process_count; i++) {
        const struct sim_process *process = &at->device->processes[i];
        const struct number *listed = (const struct number *)((const char *)process + list);
        if (!listed->value || !is_shown(at, process)) {
            continue;
        }
        if (count < room && records != NULL) {
            records[count] = (nvmlProcessInfo_t){(unsigned int)process->pid.value, process->memory.value,
                                                 (unsigned int)process->gi.value, (unsigned int)process->ci.value};
        }
        count++;
    }
    return count;
}

static nvmlReturn_t list_processes(const char *symbol, nvmlDevice_t handle, size_t list, unsigned int *count,
                                   nvmlProcessInfo_t *records) {
    struct target at;
    nvmlReturn_t result = enter_device(symbol, handle, &at);
    if (result != NVML_SUCCESS) {
        return result;
    }
    if (count == NULL || (*count > 0 && records == NULL)) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    unsigned int room = *count;
    *count = fill_records(&at, list, records, room);
    return leave(*count <= room ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE);
}

#define LIST(member) offsetof(struct sim_process, member)

NVML_API nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t handle, unsigned int *count,
                                                              nvmlProcessInfo_t *records) {
    return list_processes(__func__, handle, LIST(compute), count, records);
}

NVML_API nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t handle, unsigned int *count,
                                                              nvmlProcessInfo_t *records) {
    return list_processes(__func__, handle, LIST(compute), count, records);
}

NVML_API nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t handle, unsigned int *count,
                                                               nvmlProcessInfo_t *records) {
    return list_processes(__func__, handle, LIST(graphics), count, records);
}

NVML_API nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t handle, unsigned int *count,
                                                               nvmlProcessInfo_t *records) {
    return list_processes(__func__, handle, LIST(graphics), count, records);
}

NVML_API nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v2(nvmlDevice_t handle, unsigned int *count,
                                                                 nvmlProcessInfo_t *records) {
    return list_processes(__func__, handle, LIST(mps), count, records);
}

NVML_API nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t handle, unsigned int *count,
                                                                 nvmlProcessInfo_t *records) {
    return list_processes(__func__, handle, LIST(mps), count, records);
}

/* Locks if it succeeds: utilisation by process exists for a physical GPU without MIG mode only. */
static nvmlReturn_t enter_sampled(const char *symbol, nvmlDevice_t handle, struct target *at) {
    nvmlReturn_t result = enter_gpu(symbol, handle, at);
    return result == NVML_SUCCESS && mig_enabled(at->device) ? leave(NVML_ERROR_NOT_SUPPORTED) : result;
}

/*
 * When the process was last seen at work, and whether that is told to somebody who has seen `last_seen`. A timestamp
 * that the state sets is told even when it is older: drivers are known to do so.
 */
static bool sample_of(const struct sim_process *process, unsigned long long last_seen, unsigned long long *timestamp) {
    *timestamp = process->sm_timestamp.known ? process->sm_timestamp.value : wall_clock_us();
    return process->sm.known && (process->sm_timestamp.known || *timestamp > last_seen);
}

static unsigned int count_samples(const struct sim_device *device, unsigned long long last_seen) {
    unsigned int count = 0;
    unsigned long long timestamp;
    for (size_t i = 0; i < device->process_count; i++) {
        count += sample_of(&device->processes[i], last_seen, &timestamp) ? 1 : 0;
    }
    return count;
}

/* The handshake of both calls: without room it asks for some, whether or not there is anything to tell. */
static nvmlReturn_t check_room(const struct sim_device *device, bool has_array, unsigned int *room,
                               unsigned long long last_seen) {
    unsigned int count = count_samples(device, last_seen);
    if (!has_array || *room < count) {
        *room = count > SAMPLE_SLOTS ? count : SAMPLE_SLOTS;
        return NVML_ERROR_INSUFFICIENT_SIZE;
    }
    return count == 0 ? NVML_ERROR_NOT_FOUND : NVML_SUCCESS;
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
    result = check_room(at.device, samples != NULL, count, last_seen);
    if (result != NVML_SUCCESS) {
        return leave(result);
    }
    unsigned int room = *count;
    *count = 0;
    for (size_t i = 0; i < at.device->process_count && *count < room; i++) {
        const struct sim_process *process = &at.device->processes[i];
        unsigned long long timestamp;
        if (sample_of(process, last_seen, &timestamp)) {
            samples[(*count)++] = (nvmlProcessUtilizationSample_t){
                .pid = (unsigned int)process->pid.value, .timeStamp = timestamp, .smUtil = (unsigned int)process->sm.value};
        }
    }
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
    result = check_room(at.device, info->procUtilArray != NULL, &info->processSamplesCount, info->lastSeenTimeStamp);
    if (result != NVML_SUCCESS) {
        return leave(result);
    }
    unsigned int room = info->processSamplesCount, count = 0;
    for (size_t i = 0; i < at.device->process_count && count < room; i++) {
        const struct sim_process *process = &at.device->processes[i];
        unsigned long long timestamp;
        if (sample_of(process, info->lastSeenTimeStamp, &timestamp)) {
            info->procUtilArray[count++] = (nvmlProcessUtilizationInfo_v1_t){
                .timeStamp = timestamp, .pid = (unsigned int)process->pid.value, .smUtil = (unsigned int)process->sm.value};
        }
    }
    info->processSamplesCount = count;
    return leave(NVML_SUCCESS);
}

/* The ring of samples is not simulated: it is always the one of a GPU at rest, which has nothing newer to tell. */
NVML_API nvmlReturn_t nvmlDeviceGetSamples(nvmlDevice_t handle, unsigned int type, unsigned long long last_seen,
                                           unsigned int *value_type, unsigned int *count, nvmlSample_t *samples) {
    (void)type, (void)last_seen, (void)value_type, (void)count, (void)samples;
    struct target at;
    nvmlReturn_t result = enter_sampled(__func__, handle, &at);
    return result == NVML_SUCCESS ? leave(NVML_ERROR_NOT_FOUND) : result;
}
