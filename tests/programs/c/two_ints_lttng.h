/* The event of two_ints.c, for LTTng-UST. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER bench
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "two_ints_lttng.h"

#if !defined(TWO_INTS_LTTNG_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define TWO_INTS_LTTNG_H
#include <lttng/tracepoint.h>

LTTNG_UST_TRACEPOINT_EVENT(
    bench, two_ints, LTTNG_UST_TP_ARGS(int, i, unsigned long, v),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int, i, i) lttng_ust_field_integer(unsigned long, v, v)))
#endif

#include <lttng/tracepoint-event.h>
