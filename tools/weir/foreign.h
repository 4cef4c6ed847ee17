/* SPDX-License-Identifier: MIT */
/*
 * Records of other programs, told apart by how they begin and turned into the lines of a trace:
 *
 *   PyTorch's memory snapshots   torch.cuda.memory._dump_snapshot's pickles and weir_runtime_snapshot's
 *                                JSON. The device with the longest history counts; blocks that were
 *                                live before it begins are allocated at its first moment.
 *   RMM's logs                   RMM_LOG_FILE's CSV.
 */
#ifndef WEIR_FOREIGN_H
#define WEIR_FOREIGN_H

#include "text.h"

/* Turns *text, which is freed then, into lines of a trace, or leaves it as it is where it is of no
 * other program. On false *text is unchanged and *fault says what is wrong. O(bytes). */
bool weir_foreign_convert(const char *path, weir_text *text, weir_fault *fault);

#endif
