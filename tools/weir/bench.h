/* SPDX-License-Identifier: MIT */
/* The verb `weir bench`. */
#ifndef WEIR_BENCH_H
#define WEIR_BENCH_H

/* argv[0] is the verb, argv[1] what to measure: release-threshold. Returns the exit status. */
int weir_bench(int argc, char **argv);

#endif
