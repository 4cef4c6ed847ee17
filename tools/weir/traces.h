/* SPDX-License-Identifier: MIT */
/* The traces that a command was given, read whole before the first is played. */
#ifndef WEIR_TRACES_H
#define WEIR_TRACES_H

#include <stddef.h>

#include "card.h"
#include "options.h"
#include "trace.h"

typedef struct weir_traces {
    weir_trace *list;
    size_t count;
} weir_traces;

/* Reads and scales what `options` name, and checks that each fits into the memory it would be
 * played in: a card's (held where the options ask for CUDA) or the host's. False: *fault names what
 * is wrong and what to do; *traces is to be freed in any case. */
bool weir_traces_read(weir_traces *traces, const weir_options *options, const weir_card *card,
                      weir_fault *fault);
void weir_traces_free(weir_traces *traces);

#endif
