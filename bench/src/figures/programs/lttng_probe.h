/* The workloads' events, for LTTng-UST. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER bench
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./lttng_probe.h"

#if !defined(LTTNG_PROBE_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define LTTNG_PROBE_H
#include <lttng/tracepoint.h>

LTTNG_UST_TRACEPOINT_EVENT(
    bench, two_ints, LTTNG_UST_TP_ARGS(int, i, unsigned long, v),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int, i, i) lttng_ust_field_integer(unsigned long, v, v)))

LTTNG_UST_TRACEPOINT_EVENT(
    bench, nine_strings,
    LTTNG_UST_TP_ARGS(const char *, a, const char *, b, const char *, c, const char *, d, const char *, e,
                      const char *, f, const char *, g, const char *, h, const char *, i),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_string(a, a) lttng_ust_field_string(b, b) lttng_ust_field_string(c, c)
                        lttng_ust_field_string(d, d) lttng_ust_field_string(e, e) lttng_ust_field_string(f, f)
                        lttng_ust_field_string(g, g) lttng_ust_field_string(h, h) lttng_ust_field_string(i, i)))
#endif

#include <lttng/tracepoint-event.h>
