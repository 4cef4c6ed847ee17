/* SPDX-License-Identifier: MIT */
/* The verb `weir replay`. */
#ifndef WEIR_REPLAY_H
#define WEIR_REPLAY_H

/* argv[0] is the verb. Returns the exit status. */
int weir_replay(int argc, char **argv);

#endif
