/*
 * GPM: means between two samples of any distance. A sample remembers when it was taken and how long something had run by
 * then, so that no time between two samples is lost. Without a script the mean is the constant that the state gives.
 */
#include <stdlib.h>

#include "gate.h"
#include "handles.h"
#include "script.h"

#define ALL_PERCENT 100.0

struct nvmlGpmSample_st {
    struct nvmlGpmSample_st *next;
    nvmlDevice_t gpu; /* NULL: not taken yet. */
    unsigned int gi;
    bool scripted;
    unsigned long long time_us, busy; /* busy: in percent times microseconds, if scripted. */
    struct number constant;           /* Percent, unless scripted. */
};

/* All that were allocated and not freed, and how many: counted atomically, to be told without the lock. */
static nvmlGpmSample_t samples;
static unsigned int live;

static bool is_sample(nvmlGpmSample_t wanted) {
    nvmlGpmSample_t known = samples;
    while (known != NULL && known != wanted) {
        known = known->next;
    }
    return known != NULL;
}

/* Not of NVML: for tests, that want to see whether a caller frees what it allocates. */
NVML_API unsigned int standin_live_gpm_samples(void);

NVML_API unsigned int standin_live_gpm_samples(void) {
    return __atomic_load_n(&live, __ATOMIC_SEQ_CST);
}

NVML_API nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t handle, nvmlGpmSupport_t *support) {
    struct target at;
    nvmlReturn_t result = enter_device(__func__, handle, &at);
    if (result != NVML_SUCCESS) {
        return result;
    }
    if (support == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    if (support->version != NVML_GPM_VERSION) {
        return leave(NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    }
    support->isSupportedDevice = at.device->gpm.value != 0;
    return leave(NVML_SUCCESS);
}

NVML_API nvmlReturn_t nvmlGpmSampleAlloc(nvmlGpmSample_t *sample) {
    struct target at;
    nvmlReturn_t result = enter_system(__func__, &at);
    if (result != NVML_SUCCESS) {
        return result;
    }
    nvmlGpmSample_t made = sample == NULL ? NULL : calloc(1, sizeof *made);
    if (made == NULL) {
        return leave(sample == NULL ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_MEMORY);
    }
    made->next = samples;
    samples = *sample = made;
    __atomic_add_fetch(&live, 1, __ATOMIC_SEQ_CST);
    return leave(NVML_SUCCESS);
}

NVML_API nvmlReturn_t nvmlGpmSampleFree(nvmlGpmSample_t sample) {
    struct target at;
    nvmlReturn_t result = enter_system(__func__, &at);
    if (result != NVML_SUCCESS) {
        return result;
    }
    nvmlGpmSample_t *link = &samples;
    while (*link != NULL && *link != sample) {
        link = &(*link)->next;
    }
    if (*link == NULL) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    *link = sample->next;
    free(sample);
    __atomic_sub_fetch(&live, 1, __ATOMIC_SEQ_CST);
    return leave(NVML_SUCCESS);
}

static void take(const struct target *at, unsigned int gi, struct number constant, nvmlGpmSample_t sample) {
    sample->gpu = handle_for(at->state, at->device, NULL);
    sample->gi = gi;
    sample->scripted = at->device->track_count > 0;
    sample->time_us = at->now_us;
    sample->busy = busy_until(find_track(at->device, gi), at->now_us);
    sample->constant = constant;
}

/* Locks if it succeeds. A MIG handle is not supported, as in all drivers before 595. */
static nvmlReturn_t enter_sampling(const char *symbol, nvmlDevice_t handle, bool in_mig_mode, nvmlGpmSample_t sample,
                                   struct target *at) {
    nvmlReturn_t result = enter_gpu(symbol, handle, at);
    if (result != NVML_SUCCESS) {
        return result;
    }
    if (!is_sample(sample)) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    return at->device->gpm.value && mig_enabled(at->device) == in_mig_mode ? result : leave(NVML_ERROR_NOT_SUPPORTED);
}

NVML_API nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t handle, nvmlGpmSample_t sample) {
    struct target at;
    nvmlReturn_t result = enter_sampling(__func__, handle, false, sample, &at);
    if (result != NVML_SUCCESS) {
        return result;
    }
    take(&at, NVML_NO_INSTANCE, at.device->utilization, sample);
    return leave(NVML_SUCCESS);
}

static const struct sim_mig *find_instance(const struct sim_device *device, unsigned int gi) {
    for (size_t i = 0; i < device->mig_count; i++) {
        if (device->migs[i].gi.value == gi) {
            return &device->migs[i];
        }
    }
    return NULL;
}

/* Of the GPU instance: where it holds several MIG devices, the first one speaks for it. */
NVML_API nvmlReturn_t nvmlGpmMigSampleGet(nvmlDevice_t handle, unsigned int gi, nvmlGpmSample_t sample) {
    struct target at;
    nvmlReturn_t result = enter_sampling(__func__, handle, true, sample, &at);
    if (result != NVML_SUCCESS) {
        return result;
    }
    const struct sim_mig *mig = find_instance(at.device, gi);
    if (mig == NULL) {
        return leave(NVML_ERROR_NOT_FOUND);
    }
    take(&at, gi, mig->utilization, sample);
    return leave(NVML_SUCCESS);
}

/* The request is about the GPU of its samples, so that a fault of that GPU strikes it. */
static nvmlReturn_t resolve_request(const struct sim_state *state, const void *key, struct target *at) {
    const nvmlGpmMetricsGet_t *request = key;
    if (request == NULL || !is_sample(request->sample1) || !is_sample(request->sample2) || request->sample2->gpu == NULL) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    return resolve_handle(state, request->sample2->gpu, at);
}

static bool fit_together(const struct nvmlGpmSample_st *first, const struct nvmlGpmSample_st *second) {
    return first->gpu == second->gpu && first->gi == second->gi && first->scripted == second->scripted &&
           first->time_us < second->time_us;
}

/* Of the time between the samples; not known without a script and without a constant. */
static bool mean_percent(const struct nvmlGpmSample_st *first, const struct nvmlGpmSample_st *second, double *percent) {
    if (!second->scripted) {
        *percent = (double)second->constant.value;
        return second->constant.known;
    }
    /* A script that was replaced between the samples may have had more to tell. */
    unsigned long long busy = second->busy > first->busy ? second->busy - first->busy : 0;
    *percent = (double)busy / (double)(second->time_us - first->time_us);
    *percent = *percent > ALL_PERCENT ? ALL_PERCENT : *percent;
    return true;
}

static void fill_metric(const struct sim_device *device, bool known, double percent, nvmlGpmMetric_t *metric) {
    double part = 0;
    switch (metric->metricId) {
    case NVML_GPM_METRIC_GRAPHICS_UTIL:
        part = ALL_PERCENT;
        break;
    case NVML_GPM_METRIC_SM_UTIL:
        part = (double)device->sm_percent_of_busy.value;
        break;
    case NVML_GPM_METRIC_ANY_TENSOR_UTIL:
        part = (double)device->tensor_percent_of_busy.value;
        break;
    default:
        known = false;
    }
    *metric = (nvmlGpmMetric_t){.metricId = metric->metricId, .nvmlReturn = known ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED};
    metric->value = known ? percent * part / ALL_PERCENT : 0;
}

NVML_API nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *request) {
    struct target at;
    nvmlReturn_t result = enter_resolved(__func__, resolve_request, request, &at);
    if (result != NVML_SUCCESS) {
        return result;
    }
    if (request->version != NVML_GPM_VERSION) {
        return leave(NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    }
    if (request->numMetrics == 0 || request->numMetrics > NVML_GPM_METRIC_MAX ||
        !fit_together(request->sample1, request->sample2)) {
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    }
    double percent;
    bool known = mean_percent(request->sample1, request->sample2, &percent);
    for (unsigned int i = 0; i < request->numMetrics; i++) {
        fill_metric(at.device, known, percent, &request->metrics[i]);
    }
    return leave(NVML_SUCCESS);
}
