/*
 * What a handle means. A handle remembers the identity of its GPU or MIG device, not its place, so that it goes on
 * meaning the same when the state changes around it. Handles are never freed: a caller may keep one for ever.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "gate.h"
#include "handles.h"

struct nvmlDevice_st {
    struct nvmlDevice_st *next;
    struct text uuid;
    size_t twin; /* How many GPUs with the same UUID come before it in the state. */
    nvmlDevice_t parent; /* NULL: a physical GPU. */
    unsigned long long gi, ci;
    long index; /* Of the GPU when it was last seen. */
};

static nvmlDevice_t handles;

static bool same_text(const struct text *a, const struct text *b) {
    return a->length == b->length && memcmp(a->bytes, b->bytes, a->length) == 0;
}

static bool has_text(const struct text *text, const char *wanted) {
    return text->bytes != NULL && strcmp(text->bytes, wanted) == 0;
}

bool mig_enabled(const struct sim_device *device) {
    return device->mig_mode.known && device->mig_mode.value == 1;
}

bool parse_bus_id(const char *bus_id, unsigned int parts[4]) {
    return sscanf(bus_id, "%8x:%2x:%2x.%1x", &parts[0], &parts[1], &parts[2], &parts[3]) == 4;
}

bool is_mig_handle(nvmlDevice_t handle) {
    return handle->parent != NULL;
}

static size_t twin_of(const struct sim_state *state, const struct sim_device *device) {
    size_t twin = 0;
    for (const struct sim_device *other = state->devices; other < device; other++) {
        twin += same_text(&other->uuid, &device->uuid) ? 1 : 0;
    }
    return twin;
}

static bool is_mig(nvmlDevice_t handle, const struct sim_mig *mig) {
    return same_text(&handle->uuid, &mig->uuid) && handle->gi == mig->gi.value && handle->ci == mig->ci.value;
}

static nvmlDevice_t new_handle(const struct text *uuid) {
    nvmlDevice_t handle = calloc(1, sizeof *handle);
    if (handle == NULL || (handle->uuid.bytes = malloc(uuid->length + 1)) == NULL) {
        abort();
    }
    memcpy(handle->uuid.bytes, uuid->bytes, uuid->length + 1);
    handle->uuid.length = uuid->length;
    handle->next = handles;
    handles = handle;
    return handle;
}

static nvmlDevice_t gpu_handle(const struct sim_state *state, const struct sim_device *device) {
    size_t twin = twin_of(state, device);
    nvmlDevice_t handle = handles;
    while (handle != NULL && (handle->parent != NULL || handle->twin != twin || !same_text(&handle->uuid, &device->uuid))) {
        handle = handle->next;
    }
    if (handle == NULL) {
        handle = new_handle(&device->uuid);
        handle->twin = twin;
    }
    handle->index = (long)device->index.value;
    return handle;
}

nvmlDevice_t handle_for(const struct sim_state *state, const struct sim_device *device, const struct sim_mig *mig) {
    nvmlDevice_t gpu = gpu_handle(state, device);
    if (mig == NULL) {
        return gpu;
    }
    nvmlDevice_t handle = handles;
    while (handle != NULL && (handle->parent != gpu || !is_mig(handle, mig))) {
        handle = handle->next;
    }
    if (handle == NULL) {
        handle = new_handle(&mig->uuid);
        handle->parent = gpu;
        handle->gi = mig->gi.value;
        handle->ci = mig->ci.value;
    }
    return handle;
}

static nvmlReturn_t resolve_gpu(const struct sim_state *state, nvmlDevice_t gpu, struct target *at) {
    at->index = gpu->index;
    for (size_t i = 0; i < state->device_count; i++) {
        const struct sim_device *device = &state->devices[i];
        if (same_text(&gpu->uuid, &device->uuid) && twin_of(state, device) == gpu->twin) {
            at->device = device;
            at->index = gpu->index = (long)device->index.value;
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_GPU_IS_LOST;
}

nvmlReturn_t resolve_handle(const struct sim_state *state, const void *key, struct target *at) {
    nvmlDevice_t known = handles;
    while (known != NULL && known != key) {
        known = known->next;
    }
    if (known == NULL) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    if (known->parent == NULL) {
        return resolve_gpu(state, known, at);
    }
    nvmlReturn_t result = resolve_gpu(state, known->parent, at);
    if (result != NVML_SUCCESS) {
        return result;
    }
    for (size_t i = 0; mig_enabled(at->device) && i < at->device->mig_count; i++) {
        if (is_mig(known, &at->device->migs[i])) {
            at->mig = &at->device->migs[i];
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_INVALID_ARGUMENT;
}

static nvmlReturn_t found(struct target *at, const struct sim_device *device, const struct sim_mig *mig) {
    at->device = device;
    at->mig = mig;
    at->index = (long)device->index.value;
    return NVML_SUCCESS;
}

unsigned int count_devices(const struct sim_state *state) {
    unsigned int count = 0;
    for (size_t i = 0; i < state->device_count; i++) {
        unsigned int index = (unsigned int)state->devices[i].index.value;
        count = index >= count ? index + 1 : count;
    }
    return count;
}

nvmlReturn_t resolve_index(const struct sim_state *state, const void *key, struct target *at) {
    unsigned int index = *(const unsigned int *)key;
    at->index = (long)index;
    for (size_t i = 0; i < state->device_count; i++) {
        if (state->devices[i].index.value == index) {
            return found(at, &state->devices[i], NULL);
        }
    }
    return index < count_devices(state) ? NVML_ERROR_GPU_IS_LOST : NVML_ERROR_INVALID_ARGUMENT;
}

/* MIG-<uuid>, or the older MIG-<uuid of the GPU>/<gi>/<ci>. */
static bool names_mig(const char *wanted, const struct sim_device *device, const struct sim_mig *mig) {
    if (has_text(&mig->uuid, wanted)) {
        return true;
    }
    size_t length = strlen(device->uuid.bytes);
    if (strncmp(wanted, "MIG-", 4) != 0 || strncmp(wanted + 4, device->uuid.bytes, length) != 0) {
        return false;
    }
    char tail[48];
    snprintf(tail, sizeof tail, "/%llu/%llu", mig->gi.value, mig->ci.value);
    return strcmp(wanted + 4 + length, tail) == 0;
}

nvmlReturn_t resolve_uuid(const struct sim_state *state, const void *key, struct target *at) {
    for (size_t i = 0; key != NULL && i < state->device_count; i++) {
        const struct sim_device *device = &state->devices[i];
        if (has_text(&device->uuid, key)) {
            return found(at, device, NULL);
        }
        for (size_t j = 0; mig_enabled(device) && j < device->mig_count; j++) {
            if (names_mig(key, device, &device->migs[j])) {
                return found(at, device, &device->migs[j]);
            }
        }
    }
    return key == NULL ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_NOT_FOUND;
}

static bool same_bus_id(const char *a, const char *b) {
    unsigned int left[4], right[4];
    if (parse_bus_id(a, left) && parse_bus_id(b, right)) {
        return memcmp(left, right, sizeof left) == 0;
    }
    return strcasecmp(a, b) == 0;
}

nvmlReturn_t resolve_pci(const struct sim_state *state, const void *key, struct target *at) {
    for (size_t i = 0; key != NULL && i < state->device_count; i++) {
        if (same_bus_id(state->devices[i].pci_bus_id.bytes, key)) {
            return found(at, &state->devices[i], NULL);
        }
    }
    return key == NULL ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_NOT_FOUND;
}
