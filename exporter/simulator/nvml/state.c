/*
 * Reads the state file: lines of "key value", where a line with a section's name alone begins a new entry. Text is in
 * hexadecimal, numbers are unsigned decimal. A last line "end" shows that the file is whole.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "state.h"

#define STATE_VARIABLE "GPU_OWNERSHIP_SIMULATED_NVML"

enum section { SYSTEM, DEVICE, MIG, PROCESS, COUNTER, FAULT };
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
    TEXT_OF(MIG, sim_mig, uuid),
    TEXT_OF(MIG, sim_mig, name),
    NUMBER_OF(MIG, sim_mig, slot),
    NUMBER_OF(MIG, sim_mig, gi),
    NUMBER_OF(MIG, sim_mig, ci),
    NUMBER_OF(MIG, sim_mig, memory_total),
    NUMBER_OF(MIG, sim_mig, memory_used),
    NUMBER_OF(MIG, sim_mig, gpu_slices),
    NUMBER_OF(MIG, sim_mig, compute_slices),
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
    TEXT_OF(FAULT, sim_fault, symbol),
    NUMBER_OF(FAULT, sim_fault, device),
    NUMBER_OF(FAULT, sim_fault, code),
    NUMBER_OF(FAULT, sim_fault, delay_us),
};

#define KEY_COUNT (sizeof keys / sizeof keys[0])

/* Where the next "key value" line goes. */
struct cursor {
    struct sim_state *state;
    enum section section;
    char *entry;
};

static void free_device(struct sim_device *device) {
    for (size_t i = 0; i < device->mig_count; i++) {
        free(device->migs[i].uuid.bytes);
        free(device->migs[i].name.bytes);
    }
    free(device->uuid.bytes);
    free(device->name.bytes);
    free(device->pci_bus_id.bytes);
    free(device->migs);
    free(device->processes);
    free(device->counters);
}

static void free_state(struct sim_state *state) {
    if (state == NULL) {
        return;
    }
    for (size_t i = 0; i < state->device_count; i++) {
        free_device(&state->devices[i]);
    }
    for (size_t i = 0; i < state->fault_count; i++) {
        free(state->faults[i].symbol.bytes);
    }
    free(state->driver_version.bytes);
    free(state->devices);
    free(state->faults);
    free(state);
}

/* One more zeroed entry at the end of an array; NULL without memory. Earlier entries may move. */
static char *append(void **array, size_t *count, size_t size) {
    char *grown = realloc(*array, (*count + 1) * size);
    if (grown == NULL) {
        return NULL;
    }
    *array = grown;
    char *entry = grown + *count * size;
    memset(entry, 0, size);
    (*count)++;
    return entry;
}

#define APPEND(owner, array, count) append((void **)&(owner)->array, &(owner)->count, sizeof *(owner)->array)

/* False: the name is no section's, or its entry has no device to belong to. */
static bool begin_section(struct cursor *at, const char *name) {
    struct sim_state *state = at->state;
    struct sim_device *device = state->device_count ? &state->devices[state->device_count - 1] : NULL;
    if (strcmp(name, "device") == 0) {
        at->section = DEVICE;
        at->entry = APPEND(state, devices, device_count);
    } else if (strcmp(name, "fault") == 0) {
        at->section = FAULT;
        at->entry = APPEND(state, faults, fault_count);
    } else if (strcmp(name, "mig") == 0 && device != NULL) {
        at->section = MIG;
        at->entry = APPEND(device, migs, mig_count);
    } else if (strcmp(name, "process") == 0 && device != NULL) {
        at->section = PROCESS;
        at->entry = APPEND(device, processes, process_count);
    } else if (strcmp(name, "counter") == 0 && device != NULL) {
        at->section = COUNTER;
        at->entry = APPEND(device, counters, counter_count);
    } else {
        return false;
    }
    return at->entry != NULL;
}

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

static bool parse_line(struct cursor *at, char *line) {
    char *space = strchr(line, ' ');
    if (space == NULL) {
        return begin_section(at, line);
    }
    *space = '\0';
    for (size_t i = 0; i < KEY_COUNT; i++) {
        if (keys[i].section == at->section && strcmp(keys[i].name, line) == 0) {
            char *member = at->entry + keys[i].offset;
            return keys[i].kind == TEXT ? parse_text(space + 1, (struct text *)member)
                                        : parse_number(space + 1, (struct number *)member);
        }
    }
    return false;
}

/* Whether every entry has the text that the calls take for granted. */
static bool is_complete(const struct sim_state *state) {
    for (size_t i = 0; i < state->device_count; i++) {
        const struct sim_device *device = &state->devices[i];
        if (!device->uuid.bytes || !device->name.bytes || !device->pci_bus_id.bytes) {
            return false;
        }
        for (size_t j = 0; j < device->mig_count; j++) {
            if (!device->migs[j].uuid.bytes || !device->migs[j].name.bytes) {
                return false;
            }
        }
    }
    for (size_t i = 0; i < state->fault_count; i++) {
        if (!state->faults[i].symbol.bytes) {
            return false;
        }
    }
    return state->driver_version.bytes != NULL;
}

/* NULL: the file is not one that state.py wrote. */
static struct sim_state *parse(FILE *file) {
    struct sim_state *state = calloc(1, sizeof *state);
    struct cursor at = {state, SYSTEM, (char *)state};
    char *line = NULL;
    size_t room = 0;
    bool good = state != NULL, whole = false;
    while (good && !whole && getline(&line, &room, file) >= 0) {
        line[strcspn(line, "\n")] = '\0';
        whole = strcmp(line, "end") == 0;
        good = whole || parse_line(&at, line);
    }
    free(line);
    if (good && whole && is_complete(state)) {
        return state;
    }
    free_state(state);
    return NULL;
}

/* Which version of which file `cached` was read from. */
static struct {
    char *path;
    struct stat file;
    struct sim_state *state;
} cached;

static bool is_cached(const char *path, const struct stat *file) {
    return cached.path != NULL && strcmp(cached.path, path) == 0 && cached.file.st_dev == file->st_dev &&
           cached.file.st_ino == file->st_ino && cached.file.st_size == file->st_size &&
           cached.file.st_mtim.tv_sec == file->st_mtim.tv_sec && cached.file.st_mtim.tv_nsec == file->st_mtim.tv_nsec;
}

const struct sim_state *current_state(nvmlReturn_t *why) {
    const char *path = getenv(STATE_VARIABLE);
    struct stat file;
    *why = NVML_ERROR_DRIVER_NOT_LOADED;
    if (path == NULL || stat(path, &file) != 0) {
        return NULL;
    }
    *why = NVML_ERROR_UNKNOWN;
    if (is_cached(path, &file)) {
        return cached.state;
    }
    FILE *stream = fopen(path, "re");
    if (stream == NULL) {
        return NULL;
    }
    /* What was opened may be newer than what was named a moment ago; remember the one that is read. */
    fstat(fileno(stream), &file);
    free(cached.path);
    free_state(cached.state);
    cached.path = strdup(path);
    cached.file = file;
    cached.state = parse(stream);
    fclose(stream);
    return cached.state;
}
