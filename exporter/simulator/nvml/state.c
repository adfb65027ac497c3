/*
 * Reads the state file: lines of "key value", where a line with a section's name alone begins a new entry, and the spans
 * of a track, each of which is a row of numbers. keys.c knows the keys. A last line "end" shows that the file is whole.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "accounting.h"
#include "keys.h"
#include "script.h"
#include "state.h"

#define STATE_VARIABLE "GPU_OWNERSHIP_SIMULATED_NVML"

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
    for (size_t i = 0; i < device->track_count; i++) {
        free(device->tracks[i].spans);
        free(device->tracks[i].pids);
    }
    free(device->tracks);
    free(device->samples);
    free(device->tally);
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

/* A section within a device. False: the name is none's, or there is no device that its entry could belong to. */
static bool begin_part(struct cursor *at, struct sim_device *device, const char *name) {
    if (device == NULL) {
        return false;
    }
    if (strcmp(name, "mig") == 0) {
        at->section = MIG;
        at->entry = APPEND(device, migs, mig_count);
    } else if (strcmp(name, "process") == 0) {
        at->section = PROCESS;
        at->entry = APPEND(device, processes, process_count);
    } else if (strcmp(name, "counter") == 0) {
        at->section = COUNTER;
        at->entry = APPEND(device, counters, counter_count);
    } else if (strcmp(name, "track") == 0) {
        at->section = TRACK;
        at->entry = APPEND(device, tracks, track_count);
    } else if (strcmp(name, "sample") == 0) {
        at->section = SAMPLE;
        at->entry = APPEND(device, samples, sample_count);
    } else {
        return false;
    }
    return at->entry != NULL;
}

static bool begin_section(struct cursor *at, const char *name) {
    struct sim_state *state = at->state;
    if (strcmp(name, "device") == 0) {
        at->section = DEVICE;
        at->entry = APPEND(state, devices, device_count);
    } else if (strcmp(name, "fault") == 0) {
        at->section = FAULT;
        at->entry = APPEND(state, faults, fault_count);
    } else {
        return begin_part(at, state->device_count ? &state->devices[state->device_count - 1] : NULL, name);
    }
    return at->entry != NULL;
}

static bool parse_line(struct cursor *at, char *line) {
    char *space = strchr(line, ' ');
    if (space == NULL) {
        return begin_section(at, line);
    }
    *space = '\0';
    if (at->section == TRACK && strcmp(line, "span") == 0) {
        return parse_span((struct sim_track *)at->entry, space + 1);
    }
    return set_member(at->section, at->entry, line, space + 1);
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

/* What follows from a device's lines once all of them are read. False without memory. */
static bool finish(struct sim_device *device) {
    for (size_t i = 0; i < device->track_count; i++) {
        device->tracks[i].period_us = device->load_period.value;
    }
    const struct sim_track *track = find_track(device, NVML_NO_INSTANCE);
    if (!device->accounting.value || track == NULL) {
        return true;
    }
    device->tally = new_tally(track);
    return device->tally != NULL;
}

static bool finish_all(struct sim_state *state) {
    bool good = true;
    for (size_t i = 0; good && i < state->device_count; i++) {
        good = finish(&state->devices[i]);
    }
    return good;
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
    if (good && whole && is_complete(state) && finish_all(state)) {
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
