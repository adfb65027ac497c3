/* The lock, the count of users and the faults. No fault's delay is slept under the lock: one stuck call blocks no other. */
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "gate.h"
#include "handles.h"

/* How soon a stuck call notices that its fault has left the state. */
#define NAP_NS 20000000LL

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned int users;

static long long clock_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (long long)now.tv_sec * 1000000000LL + now.tv_nsec;
}

unsigned long long wall_clock_us(void) {
    return (unsigned long long)clock_ns(CLOCK_REALTIME) / 1000;
}

static void nap(long long nanoseconds) {
    struct timespec length = {0, nanoseconds < NAP_NS ? nanoseconds : NAP_NS};
    nanosleep(&length, NULL);
}

static bool strikes(const struct sim_fault *fault, const char *symbol, bool about_device, long index) {
    if (fault->device.known && (!about_device || fault->device.value != (unsigned long long)index)) {
        return false;
    }
    return strcmp(fault->symbol.bytes, symbol) == 0 || (about_device && strcmp(fault->symbol.bytes, "*") == 0);
}

static const struct sim_fault *find_fault(const struct sim_state *state, const char *symbol, bool about_device, long index) {
    for (size_t i = 0; i < state->fault_count; i++) {
        if (strikes(&state->faults[i], symbol, about_device, index)) {
            return &state->faults[i];
        }
    }
    return NULL;
}

/*
 * Waits out the fault that strikes this call, if one does. Locked on entry and on return. Everything is looked up anew
 * after each nap, because state and handles may have changed meanwhile.
 */
static nvmlReturn_t pass(const char *symbol, bool needs_user, resolver resolve, const void *key, struct target *at) {
    long long began = clock_ns(CLOCK_MONOTONIC);
    for (;;) {
        nvmlReturn_t result;
        if (needs_user && users == 0) {
            return NVML_ERROR_UNINITIALIZED;
        }
        *at = (struct target){.state = current_state(&result), .index = -1};
        if (at->state == NULL) {
            return result;
        }
        bool simulated;
        if (!read_clock(&at->now_us, &simulated)) {
            at->state = NULL;
            return NVML_ERROR_UNKNOWN;
        }
        at->origin_us = simulated ? 0 : at->state->origin_us.value;
        result = resolve == NULL ? NVML_SUCCESS : resolve(at->state, key, at);
        const struct sim_fault *fault = find_fault(at->state, symbol, resolve != NULL, at->index);
        if (fault == NULL) {
            return result;
        }
        long long left = (long long)fault->delay_us.value * 1000 - (clock_ns(CLOCK_MONOTONIC) - began);
        if (left <= 0) {
            return fault->code.known && fault->code.value != NVML_SUCCESS ? (nvmlReturn_t)fault->code.value : result;
        }
        pthread_mutex_unlock(&lock);
        nap(left);
        pthread_mutex_lock(&lock);
    }
}

static nvmlReturn_t enter(const char *symbol, bool needs_user, resolver resolve, const void *key, struct target *at) {
    pthread_mutex_lock(&lock);
    nvmlReturn_t result = pass(symbol, needs_user, resolve, key, at);
    return result == NVML_SUCCESS ? result : leave(result);
}

nvmlReturn_t leave(nvmlReturn_t result) {
    pthread_mutex_unlock(&lock);
    return result;
}

nvmlReturn_t enter_init(const char *symbol, struct target *at) {
    return enter(symbol, false, NULL, NULL, at);
}

nvmlReturn_t enter_system(const char *symbol, struct target *at) {
    return enter(symbol, true, NULL, NULL, at);
}

nvmlReturn_t enter_device(const char *symbol, nvmlDevice_t handle, struct target *at) {
    return enter(symbol, true, resolve_handle, handle, at);
}

nvmlReturn_t enter_gpu(const char *symbol, nvmlDevice_t handle, struct target *at) {
    nvmlReturn_t result = enter_device(symbol, handle, at);
    return result == NVML_SUCCESS && at->mig != NULL ? leave(NVML_ERROR_NOT_SUPPORTED) : result;
}

nvmlReturn_t enter_mig(const char *symbol, nvmlDevice_t handle, struct target *at) {
    nvmlReturn_t result = enter_device(symbol, handle, at);
    return result == NVML_SUCCESS && at->mig == NULL ? leave(NVML_ERROR_INVALID_ARGUMENT) : result;
}

nvmlReturn_t enter_resolved(const char *symbol, resolver resolve, const void *key, struct target *at) {
    return enter(symbol, true, resolve, key, at);
}

nvmlReturn_t enter_index(const char *symbol, unsigned int index, struct target *at) {
    return enter(symbol, true, resolve_index, &index, at);
}

nvmlReturn_t enter_uuid(const char *symbol, const char *uuid, struct target *at) {
    return enter(symbol, true, resolve_uuid, uuid, at);
}

nvmlReturn_t enter_pci(const char *symbol, const char *bus_id, struct target *at) {
    return enter(symbol, true, resolve_pci, bus_id, at);
}

void add_user(void) {
    users++;
}

nvmlReturn_t remove_user(const char *symbol) {
    struct target at = {.index = -1};
    pthread_mutex_lock(&lock);
    nvmlReturn_t result = pass(symbol, true, NULL, NULL, &at);
    if (users > 0 && (result == NVML_SUCCESS || at.state == NULL)) {
        users--;
        result = NVML_SUCCESS;
    }
    return leave(result);
}

nvmlReturn_t put_text(const struct text *text, char *buffer, unsigned int length) {
    if (buffer == NULL || text->bytes == NULL) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    if (length < text->length + 1) {
        return NVML_ERROR_INSUFFICIENT_SIZE;
    }
    memcpy(buffer, text->bytes, text->length + 1);
    return NVML_SUCCESS;
}
