/* SPDX-License-Identifier: MIT */
/* The list of the program racer. */
#include "entrants.h"

const racer_contestant *const *racer_contestants(void)
{
    static const racer_contestant *const list[] = {&racer_weir_vmm,
                                                   &racer_weir_shared,
                                                   &racer_weir_async,
                                                   &racer_weir_malloc,
#ifdef RACER_RUNTIME
                                                   &racer_malloc_async,
                                                   &racer_malloc_plain,
#endif
                                                   NULL};
    return list;
}
