/* How gate.c finds the device that a call is about. All of it runs under the lock. */
#ifndef STANDIN_HANDLES_H
#define STANDIN_HANDLES_H

#include "gate.h"

/* `key` is what the caller gave: a handle, a pointer to an index, or a string. Sets at->index wherever it can. */
typedef nvmlReturn_t (*resolver)(const struct sim_state *state, const void *key, struct target *at);

nvmlReturn_t resolve_handle(const struct sim_state *state, const void *key, struct target *at);
nvmlReturn_t resolve_index(const struct sim_state *state, const void *key, struct target *at);
nvmlReturn_t resolve_uuid(const struct sim_state *state, const void *key, struct target *at);
nvmlReturn_t resolve_pci(const struct sim_state *state, const void *key, struct target *at);

/* In gate.c: as enter_device, for a call that names its device in a way of its own. */
nvmlReturn_t enter_resolved(const char *symbol, resolver resolve, const void *key, struct target *at);

/* The highest index and one: a GPU that is missing below it is one that has been lost, and is still counted. */
unsigned int count_devices(const struct sim_state *state);

#endif
