/* The clock of the GPUs, by which everything that is sampled is stamped and every scripted load runs. */
#ifndef STANDIN_CLOCK_H
#define STANDIN_CLOCK_H

#include <stdbool.h>

/*
 * Microseconds: by the file that the environment names (`simulated`), else by the wall clock. False where the file
 * cannot be read. The caller holds the lock.
 */
bool read_clock(unsigned long long *now_us, bool *simulated);

#endif
