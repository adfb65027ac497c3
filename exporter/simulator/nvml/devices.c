/* Calls that find a device and say what it is. */
#include <stdio.h>
#include <string.h>

#include "gate.h"

static nvmlReturn_t give_handle(const struct target *at, nvmlDevice_t *device) {
    if (device == NULL) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    *device = handle_for(at->state, at->device, at->mig);
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device) {
    struct target at;
    nvmlReturn_t result = enter_index(__func__, index, &at);
    return result == NVML_SUCCESS ? leave(give_handle(&at, device)) : result;
}

NVML_API nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device) {
    struct target at;
    nvmlReturn_t result = enter_uuid(__func__, uuid, &at);
    return result == NVML_SUCCESS ? leave(give_handle(&at, device)) : result;
}

NVML_API nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *device) {
    struct target at;
    nvmlReturn_t result = enter_pci(__func__, bus_id, &at);
    return result == NVML_SUCCESS ? leave(give_handle(&at, device)) : result;
}

NVML_API nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t handle, char *name, unsigned int length) {
    struct target at;
    nvmlReturn_t result = enter_device(__func__, handle, &at);
    if (result != NVML_SUCCESS) {
        return result;
    }
    return leave(put_text(at.mig ? &at.mig->name : &at.device->name, name, length));
}

NVML_API nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t handle, char *uuid, unsigned int length) {
    struct target at;
    nvmlReturn_t result = enter_device(__func__, handle, &at);
    if (result != NVML_SUCCESS) {
        return result;
    }
    return leave(put_text(at.mig ? &at.mig->uuid : &at.device->uuid, uuid, length));
}

static void fill_pci_info(const struct text *bus_id, nvmlPciInfo_t *info) {
    unsigned int parts[4] = {0, 0, 0, 0};
    memset(info, 0, sizeof *info);
    if (parse_bus_id(bus_id->bytes, parts)) {
        snprintf(info->busIdLegacy, sizeof info->busIdLegacy, "%04X:%02X:%02X.%X", parts[0] & 0xFFFF, parts[1], parts[2],
                 parts[3]);
    }
    info->domain = parts[0];
    info->bus = parts[1];
    info->device = parts[2];
    memcpy(info->busId, bus_id->bytes, bus_id->length < sizeof info->busId ? bus_id->length : sizeof info->busId - 1);
}

NVML_API nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t handle, nvmlPciInfo_t *info) {
    struct target at;
    nvmlReturn_t result = enter_gpu(__func__, handle, &at);
    if (result != NVML_SUCCESS) {
        return result;
    }
    if (info == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    fill_pci_info(&at.device->pci_bus_id, info);
    return leave(NVML_SUCCESS);
}

NVML_API nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t handle, unsigned int *architecture) {
    struct target at;
    nvmlReturn_t result = enter_device(__func__, handle, &at);
    if (result != NVML_SUCCESS) {
        return result;
    }
    if (architecture == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    *architecture = (unsigned int)at.device->architecture.value;
    return leave(NVML_SUCCESS);
}

NVML_API nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t handle, unsigned int *brand) {
    struct target at;
    nvmlReturn_t result = enter_device(__func__, handle, &at);
    if (result != NVML_SUCCESS) {
        return result;
    }
    if (brand == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    *brand = NVML_BRAND_NVIDIA;
    return leave(NVML_SUCCESS);
}
