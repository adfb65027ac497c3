/*
 * What every call passes: the lock, the count of users, the faults, and what a handle means now.
 *
 *     struct target at;
 *     nvmlReturn_t result = enter_device(__func__, handle, &at);
 *     if (result != NVML_SUCCESS) {
 *         return result;              // not locked
 *     }
 *     ... read at.device, at.mig ...  // locked
 *     return leave(NVML_SUCCESS);     // unlocks
 */
#ifndef STANDIN_GATE_H
#define STANDIN_GATE_H

#include "nvml_abi.h"
#include "state.h"

struct target {
    const struct sim_state *state;
    const struct sim_device *device; /* The physical GPU; NULL for a call about the node. */
    const struct sim_mig *mig;       /* NULL: the call is about the physical GPU. */
    long index;                      /* By which a fault names the GPU; -1: none. */
    unsigned long long now_us;       /* The GPUs' clock. */
    unsigned long long origin_us;    /* When the driver was loaded, by that clock: counters grow from then on. */
};

/* For nvmlInit alone: as enter_system, but before anybody has initialised. */
nvmlReturn_t enter_init(const char *symbol, struct target *at);
nvmlReturn_t enter_system(const char *symbol, struct target *at);
nvmlReturn_t enter_device(const char *symbol, nvmlDevice_t handle, struct target *at);
/* As enter_device, but a MIG handle is not supported. */
nvmlReturn_t enter_gpu(const char *symbol, nvmlDevice_t handle, struct target *at);
/* As enter_device, but only a MIG handle will do. */
nvmlReturn_t enter_mig(const char *symbol, nvmlDevice_t handle, struct target *at);

/* As enter_device, for calls that look a device up instead of taking its handle. */
nvmlReturn_t enter_index(const char *symbol, unsigned int index, struct target *at);
nvmlReturn_t enter_uuid(const char *symbol, const char *uuid, struct target *at);
nvmlReturn_t enter_pci(const char *symbol, const char *bus_id, struct target *at);

/* Unlocks and passes the result on. */
nvmlReturn_t leave(nvmlReturn_t result);

/* Locked: one more nvmlInit that has to be shut down. */
void add_user(void);
/* The whole of nvmlShutdown, which works without a driver too. */
nvmlReturn_t remove_user(const char *symbol);

/* Locked: the handle for a GPU or one of its MIG devices. The same one for as long as the process lives. */
nvmlDevice_t handle_for(const struct sim_state *state, const struct sim_device *device, const struct sim_mig *mig);
bool is_mig_handle(nvmlDevice_t handle);

/* Domain, bus, device and function of a bus id; false where it has another form. */
bool parse_bus_id(const char *bus_id, unsigned int parts[4]);
bool mig_enabled(const struct sim_device *device);

/* Locked: into the caller's buffer with its terminating NUL, as NVML does it. */
nvmlReturn_t put_text(const struct text *text, char *buffer, unsigned int length);
unsigned long long wall_clock_us(void);

#endif
