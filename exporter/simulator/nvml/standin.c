/*
 * libnvidia-ml.so.1, simulated.
 *
 * A library of our own that answers the NVML calls which nvidia-ml-py makes, from a state file instead of a driver. It
 * exists so that tests and the demo run the real binding, real ctypes and real threads on a machine without a GPU: what
 * stands in is below the binding, so nothing above it can tell. The file is named by GPU_OWNERSHIP_SIMULATED_NVML and
 * is read again when it changes; `state.py` writes it. A symbol that is not here is missing as in an old driver.
 *
 * This file: starting, stopping and questions about the node. gate.c holds what every call passes, handles.c what a
 * handle means, state.c and keys.c the file, clock.c the time, script.c and ring.c what follows from a scripted load;
 * devices.c, measurements.c, mig.c, processes.c, samples.c, accounting.c and gpm.c answer the calls about devices.
 */
#include <stdio.h>

#include "gate.h"
#include "handles.h"

static nvmlReturn_t initialise(const char *symbol, unsigned int flags) {
    struct target at;
    nvmlReturn_t result = enter_init(symbol, &at);
    if (result != NVML_SUCCESS) {
        return result;
    }
    if (at.state->device_count == 0 && !(flags & NVML_INIT_FLAG_NO_GPUS)) {
        return leave(NVML_ERROR_GPU_NOT_FOUND);
    }
    add_user();
    return leave(NVML_SUCCESS);
}

NVML_API nvmlReturn_t nvmlInitWithFlags(unsigned int flags) {
    return initialise(__func__, flags);
}

NVML_API nvmlReturn_t nvmlInit_v2(void) {
    return initialise(__func__, 0);
}

NVML_API nvmlReturn_t nvmlShutdown(void) {
    return remove_user(__func__);
}

NVML_API const char *nvmlErrorString(nvmlReturn_t result) {
    static const char *const texts[] = {
        "Success", "Uninitialized", "Invalid Argument", "Not Supported", "Insufficient Permissions",
        "Already Initialized", "Not Found", "Insufficient Size", "Insufficient External Power", "Driver Not Loaded",
        "Timeout", "Interrupt Request Issue", "NVML Shared Library Not Found", "Function Not Found",
        "Corrupted infoROM", "GPU is lost", "GPU requires reset", "GPU access blocked by the operating system",
        "Driver/library version mismatch", "In use by another client", "Insufficient Memory", "No data",
        "vGPU ECC not supported", "Insufficient resources", "Frequency not supported", "Argument version mismatch",
        "Deprecated", "Not ready", "No GPUs found", "Invalid state",
    };
    unsigned int code = (unsigned int)result;
    return code < sizeof texts / sizeof texts[0] ? texts[code] : "Unknown Error";
}

NVML_API nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length) {
    struct target at;
    nvmlReturn_t result = enter_system(__func__, &at);
    return result == NVML_SUCCESS ? leave(put_text(&at.state->driver_version, version, length)) : result;
}

NVML_API nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length) {
    struct target at;
    nvmlReturn_t result = enter_system(__func__, &at);
    if (result != NVML_SUCCESS) {
        return result;
    }
    char joined[128];
    int size = snprintf(joined, sizeof joined, "%llu.%s", at.state->cuda_version.value / 1000, at.state->driver_version.bytes);
    struct text text = {joined, (size_t)size};
    return leave((size_t)size < sizeof joined ? put_text(&text, version, length) : NVML_ERROR_INSUFFICIENT_SIZE);
}

static nvmlReturn_t cuda_version(const char *symbol, int *version) {
    struct target at;
    nvmlReturn_t result = enter_system(symbol, &at);
    if (result != NVML_SUCCESS) {
        return result;
    }
    if (version == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    *version = (int)at.state->cuda_version.value;
    return leave(NVML_SUCCESS);
}

NVML_API nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version) {
    return cuda_version(__func__, version);
}

NVML_API nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version) {
    return cuda_version(__func__, version);
}

NVML_API nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count) {
    struct target at;
    nvmlReturn_t result = enter_system(__func__, &at);
    if (result != NVML_SUCCESS) {
        return result;
    }
    if (count == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    *count = count_devices(at.state);
    return leave(NVML_SUCCESS);
}
