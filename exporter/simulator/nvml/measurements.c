/* Calls that measure a device, and the numbers that a physical GPU has. */
#include <stddef.h>

#include "ring.h"

#define ALL_PERCENT 100
#define US_PER_SECOND 1000000

/* Where a number of the physical GPU stands. */
#define GPU(member) offsetof(struct sim_device, member)

/* A number of the physical GPU; not supported where the state does not give it, and through a MIG handle. */
static nvmlReturn_t get_number(const char *symbol, nvmlDevice_t handle, size_t offset, unsigned long long *value) {
    struct target at;
    nvmlReturn_t result = enter_gpu(symbol, handle, &at);
    if (result != NVML_SUCCESS) {
        return result;
    }
    const struct number *number = (const struct number *)((const char *)at.device + offset);
    *value = number->value;
    return leave(number->known ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED);
}

static nvmlReturn_t get_uint(const char *symbol, nvmlDevice_t handle, size_t offset, unsigned int *out) {
    unsigned long long value;
    nvmlReturn_t result = get_number(symbol, handle, offset, &value);
    if (result != NVML_SUCCESS) {
        return result;
    }
    if (out == NULL) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    *out = (unsigned int)value;
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t handle, unsigned int *index) {
    return get_uint(__func__, handle, GPU(index), index);
}

NVML_API nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t handle, unsigned int *minor) {
    return get_uint(__func__, handle, GPU(minor), minor);
}

/* With a script: what it draws at rest, and what its kernels drew on top in the last slot. */
NVML_API nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t handle, unsigned int *milliwatts) {
    struct target at;
    nvmlReturn_t result = enter_gpu(__func__, handle, &at);
    if (result != NVML_SUCCESS) {
        return result;
    }
    if (!at.device->power.known) {
        return leave(NVML_ERROR_NOT_SUPPORTED);
    }
    if (milliwatts == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    unsigned long long percent = at.device->track_count > 0 ? read_last_slot(&at).percent : 0;
    *milliwatts = (unsigned int)(at.device->power.value + at.device->busy_power.value * percent / 100);
    return leave(NVML_SUCCESS);
}

NVML_API nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t handle, unsigned int *milliwatts) {
    return get_uint(__func__, handle, GPU(power_limit), milliwatts);
}

NVML_API nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t handle, unsigned int sensor, unsigned int *celsius) {
    unsigned int value;
    nvmlReturn_t result = get_uint(__func__, handle, GPU(temperature), &value);
    if (result != NVML_SUCCESS) {
        return result;
    }
    if (sensor != NVML_TEMPERATURE_GPU || celsius == NULL) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    *celsius = value;
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t handle, nvmlTemperature_v1_t *temperature) {
    unsigned int value;
    nvmlReturn_t result = get_uint(__func__, handle, GPU(temperature), &value);
    if (result != NVML_SUCCESS) {
        return result;
    }
    if (temperature == NULL) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    if (temperature->version != NVML_TEMPERATURE_V1) {
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    }
    if (temperature->sensorType != NVML_TEMPERATURE_GPU) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    temperature->temperature = (int)value;
    return NVML_SUCCESS;
}

/* Millijoules that a scripted load has drawn since the driver was loaded; 0 without a script. */
static unsigned long long drawn_by_script(const struct target *at) {
    const struct sim_track *track = find_track(at->device, NVML_NO_INSTANCE);
    if (track == NULL || at->now_us <= at->origin_us) {
        return 0;
    }
    unsigned __int128 at_rest = (unsigned __int128)at->device->power.value * (at->now_us - at->origin_us) * ALL_PERCENT;
    unsigned __int128 busy = busy_until(track, at->now_us) - busy_until(track, at->origin_us);
    return (unsigned long long)((at_rest + at->device->busy_power.value * busy) / ALL_PERCENT / US_PER_SECOND);
}

NVML_API nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t handle, unsigned long long *millijoules) {
    struct target at;
    nvmlReturn_t result = enter_gpu(__func__, handle, &at);
    if (result != NVML_SUCCESS) {
        return result;
    }
    if (!at.device->energy.known) {
        return leave(NVML_ERROR_NOT_SUPPORTED);
    }
    if (millijoules == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    *millijoules = at.device->energy.value + drawn_by_script(&at);
    return leave(NVML_SUCCESS);
}

/* One counter for all time and since the driver was loaded: the state has but one. */
NVML_API nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t handle, unsigned int error, unsigned int counter,
                                                  unsigned long long *count) {
    unsigned long long value;
    nvmlReturn_t result = get_number(__func__, handle, error == 0 ? GPU(ecc_corrected) : GPU(ecc_uncorrected), &value);
    if (result != NVML_SUCCESS) {
        return result;
    }
    if (error > 1 || counter > 1 || count == NULL) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    *count = value;
    return NVML_SUCCESS;
}

/* Not supported while the GPU has MIG devices, as NVML's header says. */
NVML_API nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t handle, unsigned int *corrected, unsigned int *uncorrected,
                                                unsigned int *pending, unsigned int *failed) {
    struct target at;
    nvmlReturn_t result = enter_gpu(__func__, handle, &at);
    if (result != NVML_SUCCESS) {
        return result;
    }
    if (corrected == NULL || uncorrected == NULL || pending == NULL || failed == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    if (!at.device->row_remap_pending.known || (mig_enabled(at.device) && at.device->mig_count > 0)) {
        return leave(NVML_ERROR_NOT_SUPPORTED);
    }
    *corrected = *uncorrected = *failed = 0;
    *pending = (unsigned int)at.device->row_remap_pending.value;
    return leave(NVML_SUCCESS);
}

/* Clocks are no part of the state: the same ones for every GPU, in MHz. */
NVML_API nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t handle, unsigned int type, unsigned int *megahertz) {
    static const unsigned int clocks[NVML_CLOCK_COUNT] = {1980, 1980, 2619, 1545};
    struct target at;
    nvmlReturn_t result = enter_gpu(__func__, handle, &at);
    if (result != NVML_SUCCESS) {
        return result;
    }
    if (type >= NVML_CLOCK_COUNT || megahertz == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    *megahertz = clocks[type];
    return leave(NVML_SUCCESS);
}

NVML_API nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t handle, nvmlUtilization_t *utilization) {
    struct target at;
    nvmlReturn_t result = enter_gpu(__func__, handle, &at);
    if (result != NVML_SUCCESS) {
        return result;
    }
    if (utilization == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    if (!at.device->utilization.known || mig_enabled(at.device)) {
        return leave(NVML_ERROR_NOT_SUPPORTED);
    }
    bool scripted = at.device->track_count > 0;
    utilization->gpu = scripted ? read_last_slot(&at).percent : (unsigned int)at.device->utilization.value;
    utilization->memory = 0;
    return leave(NVML_SUCCESS);
}

/* Bytes of the GPU or of the MIG device. Used is what is allocated; where used and reserved exceed the total, none is free. */
static nvmlReturn_t get_memory(const char *symbol, nvmlDevice_t handle, nvmlMemory_v2_t *memory) {
    struct target at;
    nvmlReturn_t result = enter_device(symbol, handle, &at);
    if (result != NVML_SUCCESS) {
        return result;
    }
    const struct number *total = at.mig ? &at.mig->memory_total : &at.device->memory_total;
    memory->total = total->value;
    memory->used = at.mig ? at.mig->memory_used.value : at.device->memory_used.value;
    memory->reserved = at.mig ? 0 : at.device->memory_reserved.value;
    unsigned long long left = memory->total > memory->reserved ? memory->total - memory->reserved : 0;
    memory->free = left > memory->used ? left - memory->used : 0;
    return leave(total->known ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED);
}

/* The older answer counts what the driver reserves as used. */
NVML_API nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t handle, nvmlMemory_t *memory) {
    nvmlMemory_v2_t now;
    nvmlReturn_t result = get_memory(__func__, handle, &now);
    if (result != NVML_SUCCESS) {
        return result;
    }
    if (memory == NULL) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    *memory = (nvmlMemory_t){now.total, now.free, now.used + now.reserved};
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t handle, nvmlMemory_v2_t *memory) {
    nvmlMemory_v2_t now;
    nvmlReturn_t result = get_memory(__func__, handle, &now);
    if (result != NVML_SUCCESS) {
        return result;
    }
    if (memory == NULL) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    if (memory->version != NVML_MEMORY_V2) {
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    }
    now.version = NVML_MEMORY_V2;
    *memory = now;
    return NVML_SUCCESS;
}

static nvmlReturn_t fill_field(const struct target *at, nvmlFieldValue_t *field) {
    field->timestamp = (long long)wall_clock_us();
    field->latencyUsec = 1;
    field->valueType = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
    field->value.ullVal = 0;
    field->nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
    for (size_t i = 0; at->mig == NULL && i < at->device->counter_count; i++) {
        if (at->device->counters[i].field.value == field->fieldId) {
            field->value.ullVal = at->device->counters[i].value.value;
            field->nvmlReturn = NVML_SUCCESS;
        }
    }
    return field->nvmlReturn;
}

/* Each entry has its own result; the call succeeds if any of them did. */
NVML_API nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t handle, int count, nvmlFieldValue_t *values) {
    struct target at;
    nvmlReturn_t result = enter_device(__func__, handle, &at);
    if (result != NVML_SUCCESS) {
        return result;
    }
    if (count <= 0 || values == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    result = NVML_ERROR_NOT_SUPPORTED;
    for (int i = 0; i < count; i++) {
        if (fill_field(&at, &values[i]) == NVML_SUCCESS) {
            result = NVML_SUCCESS;
        }
    }
    return leave(result);
}
