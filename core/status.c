/* SPDX-License-Identifier: MIT */
/* status: names and texts, from the one list in weir.h. O(1). */
#include "base.h"

const char *weir_status_name(weir_status status)
{
    switch (status) {
#define WEIR_STATUS_CASE(name, number, text) \
    case WEIR_##name: \
        return #name;
        WEIR_STATUS_MAP(WEIR_STATUS_CASE)
#undef WEIR_STATUS_CASE
    }
    return "UNKNOWN";
}

const char *weir_status_text(weir_status status)
{
    switch (status) {
#define WEIR_STATUS_CASE(name, number, text) \
    case WEIR_##name: \
        return text;
        WEIR_STATUS_MAP(WEIR_STATUS_CASE)
#undef WEIR_STATUS_CASE
    }
    return "not a status of this version";
}
