/* Which keys the sections of the state file have, and where each one's value goes. */
#ifndef STANDIN_KEYS_H
#define STANDIN_KEYS_H

#include "state.h"

enum section { SYSTEM, DEVICE, MIG, PROCESS, COUNTER, TRACK, SAMPLE, FAULT };

/* Sets the member of a section's entry that `name` stands for. False: there is none, or the value is malformed. */
bool set_member(enum section section, char *entry, const char *name, const char *value);

#endif
