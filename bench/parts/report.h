/* SPDX-License-Identifier: MIT */
/* Prints results, for people or as one JSON object a line. No state. */
#ifndef WEIR_BENCH_REPORT_H
#define WEIR_BENCH_REPORT_H

#include <stdbool.h>

#include "loop.h"

typedef enum weir_bench_form { WEIR_BENCH_TABLE, WEIR_BENCH_JSON } weir_bench_form;

/* The head of the table; nothing in JSON. */
void weir_bench_report_head(weir_bench_form form);

/* With `probed` there are no times to print. */
void weir_bench_report(weir_bench_form form, bool probed, const weir_bench_result *result);

#endif
