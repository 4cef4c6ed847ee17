/* SPDX-License-Identifier: MIT */
/* What the doctor says of this build and of the host it runs on. Reads only. */
#ifndef WEIR_MACHINE_H
#define WEIR_MACHINE_H

#include "object.h"

/* Version, compiler, options and backends of this build. */
weir_object weir_machine_build(void);

/* Kernel, C library, processors, memory and what bounds it; null where there is no bound, and for
 * nvidia_module where it is not loaded. */
weir_object weir_machine_host(void);

#endif
