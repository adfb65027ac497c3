/* What the simulated driver shows now, as read from the state file. Written by state.py, line by line. */
#ifndef STANDIN_STATE_H
#define STANDIN_STATE_H

#include <stdbool.h>
#include <stddef.h>

#include "nvml_abi.h"

/* Bytes with their length, so that a NUL within is carried too; bytes[length] is 0. All zero: not in the file. */
struct text {
    char *bytes;
    size_t length;
};

/* Not known: the file does not give it, and the call for it is not supported. */
struct number {
    bool known;
    unsigned long long value;
};

struct sim_mig {
    struct text uuid, name;
    struct number slot, gi, ci, memory_total, memory_used, gpu_slices, compute_slices, utilization;
};

struct sim_process {
    struct number pid, memory, gi, ci, compute, graphics, mps, sm, sm_timestamp;
};

/* A counter that nvmlDeviceGetFieldValues can ask for. */
struct sim_counter {
    struct number field, value;
};

/* A stretch of a scripted load in which the same processes run. */
struct sim_span {
    unsigned long long start_us, end_us;
    unsigned long long before; /* Busy time in all the spans before it, in percent times microseconds. */
    unsigned int percent;
    size_t first_pid, pid_count; /* In the track's `pids`. */
};

/* The scripted load of one GPU instance, or of the GPU as a whole: spans in order, none of which overlap. */
struct sim_track {
    struct number gi; /* NVML_NO_INSTANCE: the whole GPU. */
    unsigned long long period_us; /* 0: the script is played once. */
    struct sim_span *spans;
    size_t span_count, span_room;
    unsigned int *pids;
    size_t pid_count, pid_room;
};

/* An entry of the ring as it shall be served, right or wrong. */
struct sim_sample {
    struct number timestamp, value;
};

struct sim_device {
    struct text uuid, name, pci_bus_id;
    struct number index, minor, architecture, mig_mode, max_mig_devices, utilization, memory_total, memory_used,
        memory_reserved, power, power_limit, temperature, energy, ecc_corrected, ecc_uncorrected, row_remap_pending,
        load_period, busy_power, ring_rests, verbatim_ring, gpm, sm_percent_of_busy, tensor_percent_of_busy, accounting;
    struct sim_mig *migs;
    size_t mig_count;
    struct sim_process *processes;
    size_t process_count;
    struct sim_counter *counters;
    size_t counter_count;
    struct sim_track *tracks;
    size_t track_count;
    struct sim_sample *samples;
    size_t sample_count;
    struct tally *tally; /* What accounting has added up so far; NULL without accounting or without a script. */
};

struct sim_fault {
    struct text symbol;
    struct number device, code, delay_us;
};

struct sim_state {
    struct text driver_version;
    struct number cuda_version, origin_us;
    struct sim_device *devices;
    size_t device_count;
    struct sim_fault *faults;
    size_t fault_count;
};

/*
 * The state that the environment names, read again whenever the file was replaced. Not thread-safe: the caller holds
 * the lock, and a pointer into the state is good only until the next call. NULL, with the reason in `why`, without one.
 */
const struct sim_state *current_state(nvmlReturn_t *why);

#endif
