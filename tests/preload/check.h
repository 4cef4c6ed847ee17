/* SPDX-License-Identifier: MIT */
/*
 * What the programs that run under the preload library share. Each is a plain program, as what it
 * tests is what happens to plain programs; it prints one line for each check that failed and ends
 * with 1 then.
 */
#ifndef WEIR_PRELOAD_CHECK_H
#define WEIR_PRELOAD_CHECK_H

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "standin.h"

static int check_failed; /* a program's exit status */

#define CHECK(what) \
    do { \
        if (!(what)) { \
            printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #what); \
            check_failed = 1; \
        } \
    } while (0)

#define CHECK_RESULT(call, wanted) \
    do { \
        weir_cu_result check_got = (call); \
        if (check_got != (wanted)) { \
            printf("%s:%d: %s is %d, not %d\n", __FILE__, __LINE__, #call, check_got, \
                   (int)(wanted)); \
            check_failed = 1; \
        } \
    } while (0)

#define CHECK_OK(call) CHECK_RESULT(call, WEIR_CU_OK)

#define MIB (UINT64_C(1) << 20)

#endif
