/* One row a key: text is in hexadecimal, numbers are unsigned decimal. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "keys.h"

enum kind { TEXT, NUMBER };

struct key {
    const char *name;
    enum section section;
    enum kind kind;
    size_t offset;
};

#define TEXT_OF(section, type, member) {#member, section, TEXT, offsetof(struct type, member)}
#define NUMBER_OF(section, type, member) {#member, section, NUMBER, offsetof(struct type, member)}

static const struct key keys[] = {
    TEXT_OF(SYSTEM, sim_state, driver_version),
    NUMBER_OF(SYSTEM, sim_state, cuda_version),
    NUMBER_OF(SYSTEM, sim_state, origin_us),
    TEXT_OF(DEVICE, sim_device, uuid),
    TEXT_OF(DEVICE, sim_device, name),
    TEXT_OF(DEVICE, sim_device, pci_bus_id),
    NUMBER_OF(DEVICE, sim_device, index),
    NUMBER_OF(DEVICE, sim_device, minor),
    NUMBER_OF(DEVICE, sim_device, architecture),
    NUMBER_OF(DEVICE, sim_device, mig_mode),
    NUMBER_OF(DEVICE, sim_device, max_mig_devices),
    NUMBER_OF(DEVICE, sim_device, utilization),
    NUMBER_OF(DEVICE, sim_device, memory_total),
    NUMBER_OF(DEVICE, sim_device, memory_used),
    NUMBER_OF(DEVICE, sim_device, memory_reserved),
    NUMBER_OF(DEVICE, sim_device, power),
    NUMBER_OF(DEVICE, sim_device, power_limit),
    NUMBER_OF(DEVICE, sim_device, temperature),
    NUMBER_OF(DEVICE, sim_device, energy),
    NUMBER_OF(DEVICE, sim_device, ecc_corrected),
    NUMBER_OF(DEVICE, sim_device, ecc_uncorrected),
    NUMBER_OF(DEVICE, sim_device, row_remap_pending),
    NUMBER_OF(DEVICE, sim_device, load_period),
    NUMBER_OF(DEVICE, sim_device, busy_power),
    NUMBER_OF(DEVICE, sim_device, ring_rests),
    NUMBER_OF(DEVICE, sim_device, verbatim_ring),
    NUMBER_OF(DEVICE, sim_device, gpm),
    NUMBER_OF(DEVICE, sim_device, sm_percent_of_busy),
    NUMBER_OF(DEVICE, sim_device, tensor_percent_of_busy),
    NUMBER_OF(DEVICE, sim_device, accounting),
    TEXT_OF(MIG, sim_mig, uuid),
    TEXT_OF(MIG, sim_mig, name),
    NUMBER_OF(MIG, sim_mig, slot),
    NUMBER_OF(MIG, sim_mig, gi),
    NUMBER_OF(MIG, sim_mig, ci),
    NUMBER_OF(MIG, sim_mig, memory_total),
    NUMBER_OF(MIG, sim_mig, memory_used),
    NUMBER_OF(MIG, sim_mig, gpu_slices),
    NUMBER_OF(MIG, sim_mig, compute_slices),
    NUMBER_OF(MIG, sim_mig, utilization),
    NUMBER_OF(PROCESS, sim_process, pid),
    NUMBER_OF(PROCESS, sim_process, memory),
    NUMBER_OF(PROCESS, sim_process, gi),
    NUMBER_OF(PROCESS, sim_process, ci),
    NUMBER_OF(PROCESS, sim_process, compute),
    NUMBER_OF(PROCESS, sim_process, graphics),
    NUMBER_OF(PROCESS, sim_process, mps),
    NUMBER_OF(PROCESS, sim_process, sm),
    NUMBER_OF(PROCESS, sim_process, sm_timestamp),
    NUMBER_OF(COUNTER, sim_counter, field),
    NUMBER_OF(COUNTER, sim_counter, value),
    NUMBER_OF(TRACK, sim_track, gi),
    NUMBER_OF(SAMPLE, sim_sample, timestamp),
    NUMBER_OF(SAMPLE, sim_sample, value),
    TEXT_OF(FAULT, sim_fault, symbol),
    NUMBER_OF(FAULT, sim_fault, device),
    NUMBER_OF(FAULT, sim_fault, code),
    NUMBER_OF(FAULT, sim_fault, delay_us),
};

#define KEY_COUNT (sizeof keys / sizeof keys[0])

static bool parse_number(const char *value, struct number *number) {
    char *rest;
    number->value = strtoull(value, &rest, 10);
    number->known = rest != value && *rest == '\0';
    return number->known;
}

static bool parse_text(const char *value, struct text *text) {
    size_t digits = strlen(value);
    if (digits % 2 != 0 || text->bytes != NULL) {
        return false;
    }
    text->length = digits / 2;
    text->bytes = calloc(1, text->length + 1);
    for (size_t i = 0; text->bytes != NULL && i < text->length; i++) {
        unsigned int byte;
        if (sscanf(value + 2 * i, "%2x", &byte) != 1) {
            return false;
        }
        text->bytes[i] = (char)byte;
    }
    return text->bytes != NULL;
}

bool set_member(enum section section, char *entry, const char *name, const char *value) {
    for (size_t i = 0; i < KEY_COUNT; i++) {
        if (keys[i].section == section && strcmp(keys[i].name, name) == 0) {
            char *member = entry + keys[i].offset;
            return keys[i].kind == TEXT ? parse_text(value, (struct text *)member)
                                        : parse_number(value, (struct number *)member);
        }
    }
    return false;
}
