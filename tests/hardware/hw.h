/* SPDX-License-Identifier: MIT */
/*
 * What the programs of the hardware suite share.
 *
 * Each prints a line for each thing it shows, "ok NAME", "not ok NAME: why" or "skip NAME: why", and
 * ends with 0, 1 or, without a device, 77. ci/hardware.sh counts the lines.
 * The environment variable WEIR_CUDA_LIBRARY names another libcuda, for tests of these programs.
 */
#ifndef WEIR_HW_H
#define WEIR_HW_H

#include "cuda_pool.h"
#include "cuda_work.h"
#include "driver.h"
#include "platform.h"

#define HW_MIB (UINT64_C(1) << 20)
#define HW_SKIP 77

/* ---------------------------------------------------------------------------------- results -- */

/* Prints one result with what was counted, or why it is not good. */
void hw_result(const char *name, bool good, const char *format, ...);
void hw_skip(const char *name, const char *format, ...);
/* 0 if all results were good so far and a stand-in for the driver saw no breach, else 1. */
int hw_end(void);
/* The same without the stand-in's word, for what breaks rules on purpose. */
int hw_code(void);
/* Ends the program, at once and from any thread, where `status` is not OK. */
void hw_must(weir_status status, const char *what);

/* ------------------------------------------------------------------------------------- device -- */

/* The named source on device 0, strictly; ends with 77 where there is no such device. */
weir_cuda *hw_device(weir_conf_source source, bool one_launcher);
weir_cuda_work *hw_work(weir_cuda *cuda);
/* A pool that takes CUstreams, with these settings. */
weir_cuda_pool *hw_pool(const char *settings, bool told);
/* The driver's table, opened once more, for calls that Weir does not make. */
weir_driver hw_driver(void);
/* A function of the driver's library by its exported name; ends the program where it is missing. */
void hw_symbol(const weir_driver *driver, const char *exported, void *slot);

/* What programs call to make graphs, and Weir does not. */
typedef struct hw_graphs {
    weir_cu_result (*begin)(weir_cu_stream stream, int mode);
    weir_cu_result (*end)(weir_cu_stream stream, weir_cu_graph *graph);
    weir_cu_result (*instantiate)(void **exec, weir_cu_graph graph, unsigned long long flags);
    weir_cu_result (*launch)(void *exec, weir_cu_stream stream);
    weir_cu_result (*exec_destroy)(void *exec);
    weir_cu_result (*graph_destroy)(weir_cu_graph graph);
} hw_graphs;

hw_graphs hw_graph_calls(const weir_driver *driver);

/* --------------------------------------------------------------------------------------- odds -- */

uint64_t hw_now_us(void);
uint64_t hw_now_ns(void);
uint32_t hw_random(uint32_t *state);
bool hw_given(int argc, char **argv, const char *option);
bool hw_quick(int argc, char **argv);     /* --quick was given, or --sanitizer */
bool hw_sanitizer(int argc, char **argv); /* --sanitizer: less still, as each launch is slow */
weir_stats hw_stats(weir_pool *pool);

#endif
