/* SPDX-License-Identifier: MIT */
/* Tests with parameters are part of the other header. */
#include <criterion/criterion.h>
