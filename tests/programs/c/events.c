/* Every type of field, small and large, in C11. Prints how many events it emitted. */
#include "tick.h"
#include <mote.h>
#include <stdbool.h>
#include <stdio.h>

enum state { IDLE, BUSY, WAITING, GONE = -1 };

static int emitted;
static int evaluated;

/* Counts how often a value was asked for: as often as the event is on. */
static uint32_t evaluate(uint32_t value) {
    evaluated++;
    return value;
}

static void scalars(void) {
    mote_event(c, nothing, MOTE_INFO, "no fields");
    mote_event(c, unsigned_numbers, MOTE_DEBUG, "the largest of each", mote_u8(a, UINT8_MAX), mote_u16(b, UINT16_MAX),
               mote_u32(c, UINT32_MAX), mote_u64(d, UINT64_MAX));
    mote_event(c, signed_numbers, MOTE_NOTICE, "the smallest of each", mote_i8(a, INT8_MIN), mote_i16(b, INT16_MIN),
               mote_i32(c, INT32_MIN), mote_i64(d, INT64_MIN));
    mote_event(c, hex_numbers, MOTE_DEBUG_LINE, "100% {of|these} \"quoted\" \\", mote_x8(a, 0xab), mote_x16(b, 0xabcd),
               mote_x32(c, 0xdeadbeef), mote_x64(d, 0x0123456789abcdef), mote_ptr(p, (void *)0x1000),
               mote_ptr(null, NULL));
    mote_event(c, floats, MOTE_WARNING, "exact in binary", mote_f32(single, 1.5f), mote_f64(twice, -0.0625),
               mote_bool(yes, 7), mote_bool(no, false));
    mote_event(c, enums, MOTE_ERROR, "a label, a range, a negative, none",
               mote_enum_u8(a, BUSY, "IDLE=0 BUSY=1 WAITING=2"),
               mote_enum_i32(b, GONE, MOTE_LABEL(IDLE, 0) MOTE_LABEL(GONE, -1)),
               mote_enum_u16(c, 404, "OK=200..299 BAD=400..499"), mote_enum_i64(d, 77, "ONE=1"));
    MOTE_PROBE(bare);
    MOTE_PROBE(retry, mote_u32(tries, 3), mote_str(why, "busy"));
    emitted += 8;
}

static void texts(void) {
    static const uint8_t mac[6] = {0xde, 0xad, 0xbe, 0xef, 0, 1};
    static const double point[3] = {0.5, -1.25, 3};
    static const bool flags[2] = {true, false};
    static const uint16_t path[] = {1, 22, 333, 4444, 55555};
    static const int64_t steps[] = {-1, INT64_MAX};
    char name[32];
    mote_event(c, strings, MOTE_INFO, "empty, short, null", mote_str(empty, ""), mote_str(word, "tcp"),
               mote_str(null, NULL), mote_u8(end, 1));
    emitted++;
    for (unsigned len = 0; len <= 20; len++) {
        memset(name, 'a' + (int)len, len);
        name[len] = 0;
        mote_event(c, lengths, MOTE_INFO, "a string of each length", mote_u32(len, len), mote_str(text, name),
                   mote_bytes(data, name, len), mote_u8(end, 0xee));
        emitted++;
    }
    mote_event(c, arrays, MOTE_INFO, "arrays and sequences", mote_array_u8(mac, mac, 6),
               mote_array_f64(point, point, 3), mote_array_bool(flags, flags, 2), mote_seq_u16(path, path, 5),
               mote_seq_i64(steps, steps, 2), mote_seq_u32(none, NULL, 9), mote_bytes(raw, mac, sizeof mac),
               mote_seq_x16(hex, path, 2));
    emitted++;
}

static void large(void) {
    static char text[60000];
    static uint32_t numbers[200];
    for (unsigned i = 0; i < 200; i++) numbers[i] = i * i;
    memset(text, 'x', 400);
    mote_event(c, long_string, MOTE_INFO, "400 bytes, by fragments", mote_u16(before, 1), mote_str(text, text),
               mote_seq_u32(numbers, numbers, 3), mote_u64(after, 2));
    mote_event(c, long_array, MOTE_INFO, "800 bytes, by fragments", mote_array_u32(numbers, numbers, 200),
               mote_seq_u8(none, NULL, 0), mote_str(null, NULL));
    memset(text, 'y', sizeof text - 1);
    mote_event(c, huge, MOTE_INFO, "near 60 KiB", mote_u32(len, sizeof text - 1), mote_str(text, text),
               mote_u32(end, 0xfeedbeef));
    emitted += 3;
}

static void many(void) {
    mote_event(c, many, MOTE_INFO, "40 fields", mote_u8(f1, 1), mote_u16(f2, 2), mote_u32(f3, 3), mote_u64(f4, 4),
               mote_u8(f5, 5), mote_u8(f6, 6), mote_u8(f7, 7), mote_u8(f8, 8), mote_u8(f9, 9), mote_u8(f10, 10),
               mote_u8(f11, 11), mote_u8(f12, 12), mote_u8(f13, 13), mote_u8(f14, 14), mote_u8(f15, 15),
               mote_u8(f16, 16), mote_u8(f17, 17), mote_u8(f18, 18), mote_u8(f19, 19), mote_u8(f20, 20),
               mote_u8(f21, 21), mote_u8(f22, 22), mote_u8(f23, 23), mote_u8(f24, 24), mote_u8(f25, 25),
               mote_u8(f26, 26), mote_u8(f27, 27), mote_u8(f28, 28), mote_u8(f29, 29), mote_u8(f30, 30),
               mote_u8(f31, 31), mote_u8(f32, 32), mote_u8(f33, 33), mote_u8(f34, 34), mote_u8(f35, 35),
               mote_u8(f36, 36), mote_u8(f37, 37), mote_u8(f38, 38), mote_u8(f39, 39), mote_str(f40, "forty"));
    emitted++;
}

int main(void) {
    scalars();
    texts();
    large();
    many();
    for (uint32_t i = 0; i < 3; i++) {
        mote_emit(clock, tick, i, evaluate(i * 10));
        mote_emit(clock, tock);
        emitted += 2;
    }
    mote_event(c, evaluated, MOTE_INFO, "0 when nothing else is on", mote_i32(times, evaluated));
    emitted++;
    if (evaluated != (mote_is_on(clock, tick) ? 3 : 0)) return 1;
    printf("emitted %d\n", emitted);
    return 0;
}
