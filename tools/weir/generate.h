/* SPDX-License-Identifier: MIT */
/* The verb `weir generate`. */
#ifndef WEIR_GENERATE_H
#define WEIR_GENERATE_H

/* argv[0] is the verb. Returns the exit status. */
int weir_generate(int argc, char **argv);

#endif
