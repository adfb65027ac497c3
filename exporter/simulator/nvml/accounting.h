/* What the driver's accounting mode adds up, process by process. */
#ifndef STANDIN_ACCOUNTING_H
#define STANDIN_ACCOUNTING_H

#include "state.h"

/* An empty one for the processes of a script, in one piece of memory; NULL without memory. */
struct tally *new_tally(const struct sim_track *track);

#endif
