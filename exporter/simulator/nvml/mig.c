/* Calls about a GPU's MIG devices. A MIG device exists only while its GPU is in MIG mode. */
#include <stddef.h>

#include "gate.h"

#define MIB (1ULL << 20)
/* Of an H100's compute slice. */
#define PROCESSORS_PER_SLICE 16

NVML_API nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t handle, unsigned int *current, unsigned int *pending) {
    struct target at;
    nvmlReturn_t result = enter_gpu(__func__, handle, &at);
    if (result != NVML_SUCCESS) {
        return result;
    }
    if (current == NULL || pending == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    if (!at.device->mig_mode.known) {
        return leave(NVML_ERROR_NOT_SUPPORTED);
    }
    *current = *pending = (unsigned int)at.device->mig_mode.value;
    return leave(NVML_SUCCESS);
}

/* How many MIG devices there could be at most, not how many there are; 0 without MIG mode. */
NVML_API nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t handle, unsigned int *count) {
    struct target at;
    nvmlReturn_t result = enter_gpu(__func__, handle, &at);
    if (result != NVML_SUCCESS) {
        return result;
    }
    if (count == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    *count = mig_enabled(at.device) ? (unsigned int)at.device->max_mig_devices.value : 0;
    return leave(NVML_SUCCESS);
}

static const struct sim_mig *mig_in_slot(const struct sim_device *device, unsigned int slot) {
    for (size_t i = 0; i < device->mig_count; i++) {
        if (device->migs[i].slot.value == slot) {
            return &device->migs[i];
        }
    }
    return NULL;
}

/* An empty slot answers NOT_FOUND, and later ones may still be taken. */
NVML_API nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t handle, unsigned int index, nvmlDevice_t *mig_handle) {
    struct target at;
    nvmlReturn_t result = enter_gpu(__func__, handle, &at);
    if (result != NVML_SUCCESS) {
        return result;
    }
    if (mig_handle == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    if (!mig_enabled(at.device)) {
        return leave(NVML_ERROR_NOT_SUPPORTED);
    }
    if (index >= at.device->max_mig_devices.value) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    const struct sim_mig *mig = mig_in_slot(at.device, index);
    if (mig == NULL) {
        return leave(NVML_ERROR_NOT_FOUND);
    }
    *mig_handle = handle_for(at.state, at.device, mig);
    return leave(NVML_SUCCESS);
}

NVML_API nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t mig_handle, nvmlDevice_t *handle) {
    struct target at;
    nvmlReturn_t result = enter_mig(__func__, mig_handle, &at);
    if (result != NVML_SUCCESS) {
        return result;
    }
    if (handle == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    *handle = handle_for(at.state, at.device, NULL);
    return leave(NVML_SUCCESS);
}

NVML_API nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t handle, unsigned int *is_mig) {
    struct target at;
    nvmlReturn_t result = enter_device(__func__, handle, &at);
    if (result != NVML_SUCCESS) {
        return result;
    }
    if (is_mig == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    *is_mig = at.mig != NULL;
    return leave(NVML_SUCCESS);
}

NVML_API nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t handle, unsigned int *id) {
    struct target at;
    nvmlReturn_t result = enter_mig(__func__, handle, &at);
    if (result != NVML_SUCCESS) {
        return result;
    }
    if (id == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    *id = (unsigned int)at.mig->gi.value;
    return leave(NVML_SUCCESS);
}

NVML_API nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t handle, unsigned int *id) {
    struct target at;
    nvmlReturn_t result = enter_mig(__func__, handle, &at);
    if (result != NVML_SUCCESS) {
        return result;
    }
    if (id == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    *id = (unsigned int)at.mig->ci.value;
    return leave(NVML_SUCCESS);
}

/* A MIG device without a profile has no attributes. */
NVML_API nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t handle, nvmlDeviceAttributes_t *attributes) {
    struct target at;
    nvmlReturn_t result = enter_mig(__func__, handle, &at);
    if (result != NVML_SUCCESS) {
        return result;
    }
    if (attributes == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    if (!at.mig->gpu_slices.known || !at.mig->compute_slices.known) {
        return leave(NVML_ERROR_NOT_FOUND);
    }
    unsigned int compute_slices = (unsigned int)at.mig->compute_slices.value;
    *attributes = (nvmlDeviceAttributes_t){
        .multiprocessorCount = compute_slices * PROCESSORS_PER_SLICE,
        .sharedCopyEngineCount = compute_slices,
        .gpuInstanceSliceCount = (unsigned int)at.mig->gpu_slices.value,
        .computeInstanceSliceCount = compute_slices,
        .memorySizeMB = at.mig->memory_total.value / MIB,
    };
    return leave(NVML_SUCCESS);
}
