/* Calls about the processes on a device. */
#include <stddef.h>

#include "gate.h"

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
