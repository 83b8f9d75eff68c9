/* mote.h: typed static events for C11 and C++17 (gcc, clang) that cost one NOP while they are off.
 *
 *   #include <mote.h>
 *
 *   mote_event(net, packet_in, MOTE_INFO, "a packet has arrived", mote_u32(len, n), mote_str(proto, p));
 *
 * declares an event of provider `net` where it stands and records it while it is switched on:
 * `mote record -- ./program`. Up to 40 fields; each names itself and says its type. The values are
 * evaluated once, in any order, and only while the event is on. Link with -lmote (libmote.so or libmote.a).
 *
 * The shortest form has a name and what is to be seen there, and is an event of the provider `probe`:
 *
 *   MOTE_PROBE(retry, mote_u32(tries, n));
 *
 * To emit one event from many places, declare it once, in a header or a source file:
 *
 *   MOTE_TRACEPOINT(net, packet_in, MOTE_INFO, "a packet has arrived", (uint32_t n, const char *p),
 *                   mote_u32(len, n), mote_str(proto, p))
 *
 *   mote_emit(net, packet_in, n, p);
 *
 * and `if (mote_is_on(net, packet_in))` guards what only prepares an event. Quick text, made as by printf, is an event
 * mote:note:
 *
 *   mote_tracef("gave up after %d tries: %s", tries, why);
 *
 * A declared event takes functions of the program's own (mote_connect), and the program may have switches that cost
 * it as little as an event that is off (MOTE_SWITCH): see "Probes" and "Switches of the program's own" below.
 *
 * Field                          | In the trace
 * -------------------------------|--------------------------------------------------------------
 * mote_u8/16/32/64(name, value)  | unsigned integer; mote_i8 ... signed; mote_x8 ... in base 16
 * mote_f32/f64, mote_bool        | IEEE 754 number; truth value
 * mote_ptr(name, pointer)        | address
 * mote_str(name, text)           | text up to its NUL; "(null)" for a null pointer
 * mote_bytes(name, from, n)      | n bytes, at most 65,535
 * mote_array_T(name, from, N)    | N numbers of type T (u8 ... f64, bool); N is a decimal literal
 * mote_seq_T(name, from, n)      | n numbers of type T, at most 65,535
 * mote_enum_T(name, value, "IDLE=0 BUSY=1..3")
 *                                | integer with labels; MOTE_LABEL(IDLE, 0) is such a piece, too
 *
 * While an event has a filter (`mote record --filter`), a text that cannot be read is noticed: the event is lost and
 * counted, or has "(unreadable)" there.
 *
 * An event holds at most 64 KiB; a larger one is lost, and counted as such. The text of an event has one line.
 * Events may stand in signal handlers, inline functions, templates and lambdas, but not between vfork and exec. A text
 * must not be changed by another thread while it is recorded. Events never allocate, block,
 * abort, or change errno.
 *
 * With -DMOTE_TESTED_BYTE a site tests a byte instead of being patched: for systems that forbid writing to
 * program text. */
#ifndef MOTE_H
#define MOTE_H

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if !defined(__linux__) || !defined(__GNUC__)
#error "mote.h needs Linux, and gcc or clang"
#endif

/* ---- The processor: all that depends on it stands here ------------------------------------------- */

/* MOTE_NOP_: the instruction that a site is while its event is off. The library knows it by its bytes. */
#if defined(__x86_64__)
#define MOTE_NOP_ ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00"
#else
#error "mote.h does not know this processor: it needs x86-64"
#endif

/* Levels, most important first. */
#define MOTE_EMERGENCY 0
#define MOTE_ALERT 1
#define MOTE_CRITICAL 2
#define MOTE_ERROR 3
#define MOTE_WARNING 4
#define MOTE_NOTICE 5
#define MOTE_INFO 6
#define MOTE_DEBUG_SYSTEM 7
#define MOTE_DEBUG_PROGRAM 8
#define MOTE_DEBUG_PROCESS 9
#define MOTE_DEBUG_MODULE 10
#define MOTE_DEBUG_UNIT 11
#define MOTE_DEBUG_FUNCTION 12
#define MOTE_DEBUG_LINE 13
#define MOTE_DEBUG 14

/* ---- The library ------------------------------------------------------------------------------- */

#ifdef __cplusplus
#define MOTE_INLINE_ inline __attribute__((always_inline, visibility("hidden")))
#define MOTE_CAST_(T, value) reinterpret_cast<T>(value)
typedef bool mote_bool_;
extern "C" {
#else
#define MOTE_INLINE_ static inline __attribute__((always_inline, unused))
#define MOTE_CAST_(T, value) ((T)(value))
typedef _Bool mote_bool_;
#endif

/* An event as its sites, the library and the sessions share it, within one line of the cache (in Rust:
 * mote_agent::Event). All zeros: it is off. The library writes it; sites read the words that have a comment. */
struct __attribute__((aligned(32))) mote_event {
    uint64_t destination;
    void *gate; /* not null: mote_judge is to be asked */
    uint32_t number;
    uint32_t switch_; /* not 0: it is on */
    uint64_t direct; /* not 0: where a small event may go at once */
};
#ifdef __cplusplus
static_assert(sizeof(struct mote_event) == 32, "the library has the same");
#else
_Static_assert(sizeof(struct mote_event) == 32, "the library has the same");
#endif

/* Bytes somewhere in the process. */
struct mote_fragment {
    const void *from;
    size_t len;
};

/* A probe of the program's own, as those that call it see it, and the probes of an event. */
struct mote_probe {
    struct mote_probe *next;
    void (*call)(void);
    void *data;
};
struct mote_probes {
    struct mote_probe *first;
};
struct mote_connection;

/* Called by name through the global offset table: nothing is resolved while an event is recorded. They throw nothing,
   but C++ is not told so: a thread that is cancelled inside one would end the program. */
#if defined(__has_attribute) && __has_attribute(noplt)
#define MOTE_API_ __attribute__((visibility("default"), noplt))
#else
#define MOTE_API_ __attribute__((visibility("default")))
#endif

/* 1 when the process is being recorded. */
MOTE_API_ int mote_is_traced(void);

/* What the macros call. `fields` must be readable up to a multiple of 8 bytes. */
MOTE_API_ void mote_record(const struct mote_event *event, const void *fields, size_t len);
/* `len` bytes, at most 16, of `first` and then `second`; `direct` is not 0. */
MOTE_API_ void mote_record_packed(uint64_t first, uint64_t second, uint64_t direct, size_t len);
MOTE_API_ void mote_record_judged(const struct mote_event *event, const void *fields, size_t len,
                                  uint64_t verdict);
MOTE_API_ void mote_record_fragments(const struct mote_event *event, const struct mote_fragment *list,
                                     size_t count, size_t len, uint64_t verdict);
/* Asks the event's filter, whose context is `words`: 0 is no. */
MOTE_API_ uint64_t mote_judge(const struct mote_event *event, const uint64_t *words);
/* As strlen; all ones when the text cannot be read. Then mote_fault counts it, and answers as mote_judge. */
MOTE_API_ size_t mote_text_len(const char *text);
MOTE_API_ uint64_t mote_fault(const struct mote_event *event);
MOTE_API_ void mote_add_object(const void *first, const void *end);
MOTE_API_ void mote_remove_object(const void *first);
/* A section in which probes stay. */
MOTE_API_ uintptr_t mote_probes_enter(void);
MOTE_API_ void mote_probes_leave(uintptr_t section);
MOTE_INLINE_ void mote_probes_leave_(const uintptr_t *section) { mote_probes_leave(*section); }
MOTE_API_ struct mote_connection *mote_connect_(const void *first, const void *end, struct mote_event *event,
                                                struct mote_probes *probes, void (*call)(void), void *data);

/* ---- The object's sites: announced before main and after dlopen, withdrawn at dlclose ------------- */

/* An empty record, so that the section and the linker's names for its bounds exist. */
__asm__(".pushsection mote_sites,\"aR\",@progbits\n"
        ".balign 4\n"
        ".long 0, 0, 0, 0\n"
        ".popsection\n");

extern const char mote_sites_first_[] __asm__("__start_mote_sites") __attribute__((visibility("hidden")));
extern const char mote_sites_end_[] __asm__("__stop_mote_sites") __attribute__((visibility("hidden")));

/* One copy in an object, which each of its source files calls: the library ignores what it knows. */
__attribute__((weak, used, visibility("hidden"), constructor(101))) void mote_object_enter_(void) {
    mote_add_object(mote_sites_first_, mote_sites_end_);
}

/* A note that leads to it: the library's own constructor runs before the program's, and calls it then. One in an
 * object. */
__asm__(".pushsection .note.mote,\"aG\",@note,mote_note_,comdat\n"
        ".balign 4\n"
        ".long 5, 4, 1\n"
        ".asciz \"mote\"\n"
        ".balign 4\n"
        ".long mote_object_enter_ - .\n"
        ".popsection\n");

__attribute__((weak, visibility("hidden"), destructor(101))) void mote_object_leave_(void) {
    mote_remove_object(mote_sites_first_);
}

#ifdef __cplusplus
}
#endif

/* ---- The switch -------------------------------------------------------------------------------- */

/* A record of a site: place of the NOP, where to jump, event, description, each relative to its own place; a switch has
 * no description. With `?` it belongs to the group of its function: the linker drops both together (inline functions,
 * templates). */
#define MOTE_SITE_(code, target, described)                                                               \
    ".pushsection mote_sites,\"aR?\",@progbits\n"                                                        \
    ".balign 4\n"                                                                                         \
    ".long " code "\n"                                                                                    \
    ".long " target "\n"                                                                                  \
    ".long %c0 - .\n"                                                                                     \
    ".long " described "\n"                                                                               \
    ".popsection\n"

/* Does what comes last while the event is on; goes past it while it is off. */
#define MOTE_WHEN_ON_(event, text, ...) MOTE_WHEN_("%c1 - .", event, text, __VA_ARGS__)
/* The same of a switch. */
#define MOTE_WHEN_SWITCHED_(which, ...) MOTE_WHEN_("0", which, 0, __VA_ARGS__)
#if defined(MOTE_TESTED_BYTE)
#define MOTE_WHEN_(described, event, text, ...)                                                           \
    {                                                                                                     \
        __asm__ __volatile__(MOTE_SITE_("0", "0", described) : : "i"(&(event)), "i"(text));               \
        if (__builtin_expect(__atomic_load_n(&(event).switch_, __ATOMIC_RELAXED) != 0, 0)) {              \
            __VA_ARGS__;                                                                                  \
        }                                                                                                 \
    }
#else
#define MOTE_JUMP_(event, text, described, label)                                                         \
    __asm__ __inline__ goto("2: " MOTE_NOP_ "\n" MOTE_SITE_("2b - .", "%l2 - .", described)               \
                            :                                                                             \
                            : "i"(&(event)), "i"(text)                                                    \
                            :                                                                             \
                            : label)
#if defined(__clang__) && defined(__cplusplus)
/* clang before 18 takes every label of a function for a target of every jump in it, and finds C++ variables that are
 * jumped over: the jump has a function of its own. */
#define MOTE_WHEN_(described, event, text, ...)                                                           \
    if (__builtin_expect([]() __attribute__((always_inline)) {                                            \
            MOTE_JUMP_(event, text, described, mote_on_);                                                 \
            return false;                                                                                 \
        mote_on_:                                                                                         \
            return true;                                                                                  \
        }(), 0)) {                                                                                        \
        __VA_ARGS__;                                                                                      \
    }
#else
#define MOTE_WHEN_(described, event, text, ...)                                                           \
    {                                                                                                     \
        __label__ mote_on_;                                                                               \
        MOTE_JUMP_(event, text, described, mote_on_);                                                     \
        if (0) {                                                                                          \
        mote_on_:                                                                                         \
            MOTE_COLD_ __VA_ARGS__;                                                                       \
        }                                                                                                 \
    }
#endif
#endif

/* In front of what is rarely done: gcc then makes a stack frame only there. */
#if defined(__clang__)
#define MOTE_COLD_ (void)0;
#elif defined(__cplusplus)
#define MOTE_COLD_ [[unlikely]]
#else
MOTE_INLINE_ __attribute__((cold)) void mote_cold_(void) {}
#define MOTE_COLD_ mote_cold_();
#endif

/* ---- Macros over macros ------------------------------------------------------------------------ */

#define MOTE_STRING_(x) MOTE_STRING_2_(x)
#define MOTE_STRING_2_(x) #x
#define MOTE_JOIN_(a, b) MOTE_JOIN_2_(a, b)
#define MOTE_JOIN_2_(a, b) a##b
#define MOTE_CALL_(macro, arguments) macro arguments
#define MOTE_OPEN_(...) __VA_ARGS__
#define MOTE_FIRST_(...) MOTE_FIRST_2_(__VA_ARGS__, 0)
#define MOTE_FIRST_2_(first, ...) first

/* `n`, which must be written as a plain decimal number because it also becomes text: 1 before its digits adds
 * a power of ten. */
#define MOTE_DECIMAL_(n)                                                                                  \
    (sizeof(char[MOTE_JOIN_(1, n) - (n) == 10 || MOTE_JOIN_(1, n) - (n) == 100 ||                         \
                 MOTE_JOIN_(1, n) - (n) == 1000 || MOTE_JOIN_(1, n) - (n) == 10000 ||                     \
                 MOTE_JOIN_(1, n) - (n) == 100000 ? 1 : -1]) * (n))

/* How many arguments, up to 41. */
#define MOTE_COUNT_2_( \
    a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19, a20, \
    a21, a22, a23, a24, a25, a26, a27, a28, a29, a30, a31, a32, a33, a34, a35, a36, a37, a38, \
    a39, a40, a41, n, ...) n
#define MOTE_COUNT_(...) \
    MOTE_COUNT_2_(__VA_ARGS__, \
    41, 40, 39, 38, 37, 36, 35, 34, 33, 32, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, \
    19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)

/* All arguments but the first, in parentheses. */
#define MOTE_REST_(...) MOTE_JOIN_(MOTE_JOIN_(MOTE_REST_, MOTE_MANY_(__VA_ARGS__)), _)(__VA_ARGS__)
#define MOTE_MANY_(...) \
    MOTE_COUNT_2_(__VA_ARGS__, \
    N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, \
    N, N, N, N, N, N, N, N, N, N, 1, 0)
#define MOTE_REST_1_(first) ()
#define MOTE_REST_N_(first, ...) (__VA_ARGS__)

/* op(index, field) for each argument but the first. */
#define MOTE_EACH_(op, ...) MOTE_JOIN_(MOTE_JOIN_(MOTE_EACH_, MOTE_COUNT_(__VA_ARGS__)), _)(op, __VA_ARGS__)
#define MOTE_EACH_1_(op, head)
#define MOTE_EACH_2_(op, head, f) op(2, f)
#define MOTE_EACH_3_(op, head, f, ...) op(3, f) MOTE_EACH_2_(op, head, __VA_ARGS__)
#define MOTE_EACH_4_(op, head, f, ...) op(4, f) MOTE_EACH_3_(op, head, __VA_ARGS__)
#define MOTE_EACH_5_(op, head, f, ...) op(5, f) MOTE_EACH_4_(op, head, __VA_ARGS__)
#define MOTE_EACH_6_(op, head, f, ...) op(6, f) MOTE_EACH_5_(op, head, __VA_ARGS__)
#define MOTE_EACH_7_(op, head, f, ...) op(7, f) MOTE_EACH_6_(op, head, __VA_ARGS__)
#define MOTE_EACH_8_(op, head, f, ...) op(8, f) MOTE_EACH_7_(op, head, __VA_ARGS__)
#define MOTE_EACH_9_(op, head, f, ...) op(9, f) MOTE_EACH_8_(op, head, __VA_ARGS__)
#define MOTE_EACH_10_(op, head, f, ...) op(10, f) MOTE_EACH_9_(op, head, __VA_ARGS__)
#define MOTE_EACH_11_(op, head, f, ...) op(11, f) MOTE_EACH_10_(op, head, __VA_ARGS__)
#define MOTE_EACH_12_(op, head, f, ...) op(12, f) MOTE_EACH_11_(op, head, __VA_ARGS__)
#define MOTE_EACH_13_(op, head, f, ...) op(13, f) MOTE_EACH_12_(op, head, __VA_ARGS__)
#define MOTE_EACH_14_(op, head, f, ...) op(14, f) MOTE_EACH_13_(op, head, __VA_ARGS__)
#define MOTE_EACH_15_(op, head, f, ...) op(15, f) MOTE_EACH_14_(op, head, __VA_ARGS__)
#define MOTE_EACH_16_(op, head, f, ...) op(16, f) MOTE_EACH_15_(op, head, __VA_ARGS__)
#define MOTE_EACH_17_(op, head, f, ...) op(17, f) MOTE_EACH_16_(op, head, __VA_ARGS__)
#define MOTE_EACH_18_(op, head, f, ...) op(18, f) MOTE_EACH_17_(op, head, __VA_ARGS__)
#define MOTE_EACH_19_(op, head, f, ...) op(19, f) MOTE_EACH_18_(op, head, __VA_ARGS__)
#define MOTE_EACH_20_(op, head, f, ...) op(20, f) MOTE_EACH_19_(op, head, __VA_ARGS__)
#define MOTE_EACH_21_(op, head, f, ...) op(21, f) MOTE_EACH_20_(op, head, __VA_ARGS__)
#define MOTE_EACH_22_(op, head, f, ...) op(22, f) MOTE_EACH_21_(op, head, __VA_ARGS__)
#define MOTE_EACH_23_(op, head, f, ...) op(23, f) MOTE_EACH_22_(op, head, __VA_ARGS__)
#define MOTE_EACH_24_(op, head, f, ...) op(24, f) MOTE_EACH_23_(op, head, __VA_ARGS__)
#define MOTE_EACH_25_(op, head, f, ...) op(25, f) MOTE_EACH_24_(op, head, __VA_ARGS__)
#define MOTE_EACH_26_(op, head, f, ...) op(26, f) MOTE_EACH_25_(op, head, __VA_ARGS__)
#define MOTE_EACH_27_(op, head, f, ...) op(27, f) MOTE_EACH_26_(op, head, __VA_ARGS__)
#define MOTE_EACH_28_(op, head, f, ...) op(28, f) MOTE_EACH_27_(op, head, __VA_ARGS__)
#define MOTE_EACH_29_(op, head, f, ...) op(29, f) MOTE_EACH_28_(op, head, __VA_ARGS__)
#define MOTE_EACH_30_(op, head, f, ...) op(30, f) MOTE_EACH_29_(op, head, __VA_ARGS__)
#define MOTE_EACH_31_(op, head, f, ...) op(31, f) MOTE_EACH_30_(op, head, __VA_ARGS__)
#define MOTE_EACH_32_(op, head, f, ...) op(32, f) MOTE_EACH_31_(op, head, __VA_ARGS__)
#define MOTE_EACH_33_(op, head, f, ...) op(33, f) MOTE_EACH_32_(op, head, __VA_ARGS__)
#define MOTE_EACH_34_(op, head, f, ...) op(34, f) MOTE_EACH_33_(op, head, __VA_ARGS__)
#define MOTE_EACH_35_(op, head, f, ...) op(35, f) MOTE_EACH_34_(op, head, __VA_ARGS__)
#define MOTE_EACH_36_(op, head, f, ...) op(36, f) MOTE_EACH_35_(op, head, __VA_ARGS__)
#define MOTE_EACH_37_(op, head, f, ...) op(37, f) MOTE_EACH_36_(op, head, __VA_ARGS__)
#define MOTE_EACH_38_(op, head, f, ...) op(38, f) MOTE_EACH_37_(op, head, __VA_ARGS__)
#define MOTE_EACH_39_(op, head, f, ...) op(39, f) MOTE_EACH_38_(op, head, __VA_ARGS__)
#define MOTE_EACH_40_(op, head, f, ...) op(40, f) MOTE_EACH_39_(op, head, __VA_ARGS__)
#define MOTE_EACH_41_(op, head, f, ...) op(41, f) MOTE_EACH_40_(op, head, __VA_ARGS__)

/* ---- Fields: (line of the description, kind, what the kind needs...) ------------------------------- */

#define mote_u8(name, ...) (#name " u8\n", NUMBER, uint8_t, (__VA_ARGS__))
#define mote_u16(name, ...) (#name " u16\n", NUMBER, uint16_t, (__VA_ARGS__))
#define mote_u32(name, ...) (#name " u32\n", NUMBER, uint32_t, (__VA_ARGS__))
#define mote_u64(name, ...) (#name " u64\n", NUMBER, uint64_t, (__VA_ARGS__))
#define mote_i8(name, ...) (#name " i8\n", NUMBER, int8_t, (__VA_ARGS__))
#define mote_i16(name, ...) (#name " i16\n", NUMBER, int16_t, (__VA_ARGS__))
#define mote_i32(name, ...) (#name " i32\n", NUMBER, int32_t, (__VA_ARGS__))
#define mote_i64(name, ...) (#name " i64\n", NUMBER, int64_t, (__VA_ARGS__))
#define mote_x8(name, ...) (#name " x8\n", NUMBER, uint8_t, (__VA_ARGS__))
#define mote_x16(name, ...) (#name " x16\n", NUMBER, uint16_t, (__VA_ARGS__))
#define mote_x32(name, ...) (#name " x32\n", NUMBER, uint32_t, (__VA_ARGS__))
#define mote_x64(name, ...) (#name " x64\n", NUMBER, uint64_t, (__VA_ARGS__))
#define mote_f32(name, ...) (#name " f32\n", NUMBER, float, (__VA_ARGS__))
#define mote_f64(name, ...) (#name " f64\n", NUMBER, double, (__VA_ARGS__))
#define mote_bool(name, ...) (#name " bool\n", NUMBER, uint8_t, ((__VA_ARGS__) ? 1 : 0))
#define mote_ptr(name, ...) (#name " x64\n", NUMBER, uint64_t, mote_address_(__VA_ARGS__))
#define mote_str(name, ...) (#name " str\n", TEXT, (__VA_ARGS__))
#define mote_bytes(name, from, n) (#name " bytes\n", SEQUENCE, void, 1, from, n)

#define mote_array_u8(name, from, n) (#name " u8[" MOTE_STRING_(n) "]\n", ARRAY, uint8_t, from, MOTE_DECIMAL_(n))
#define mote_array_u16(name, from, n) (#name " u16[" MOTE_STRING_(n) "]\n", ARRAY, uint16_t, from, MOTE_DECIMAL_(n))
#define mote_array_u32(name, from, n) (#name " u32[" MOTE_STRING_(n) "]\n", ARRAY, uint32_t, from, MOTE_DECIMAL_(n))
#define mote_array_u64(name, from, n) (#name " u64[" MOTE_STRING_(n) "]\n", ARRAY, uint64_t, from, MOTE_DECIMAL_(n))
#define mote_array_i8(name, from, n) (#name " i8[" MOTE_STRING_(n) "]\n", ARRAY, int8_t, from, MOTE_DECIMAL_(n))
#define mote_array_i16(name, from, n) (#name " i16[" MOTE_STRING_(n) "]\n", ARRAY, int16_t, from, MOTE_DECIMAL_(n))
#define mote_array_i32(name, from, n) (#name " i32[" MOTE_STRING_(n) "]\n", ARRAY, int32_t, from, MOTE_DECIMAL_(n))
#define mote_array_i64(name, from, n) (#name " i64[" MOTE_STRING_(n) "]\n", ARRAY, int64_t, from, MOTE_DECIMAL_(n))
#define mote_array_x8(name, from, n) (#name " x8[" MOTE_STRING_(n) "]\n", ARRAY, uint8_t, from, MOTE_DECIMAL_(n))
#define mote_array_x16(name, from, n) (#name " x16[" MOTE_STRING_(n) "]\n", ARRAY, uint16_t, from, MOTE_DECIMAL_(n))
#define mote_array_x32(name, from, n) (#name " x32[" MOTE_STRING_(n) "]\n", ARRAY, uint32_t, from, MOTE_DECIMAL_(n))
#define mote_array_x64(name, from, n) (#name " x64[" MOTE_STRING_(n) "]\n", ARRAY, uint64_t, from, MOTE_DECIMAL_(n))
#define mote_array_f32(name, from, n) (#name " f32[" MOTE_STRING_(n) "]\n", ARRAY, float, from, MOTE_DECIMAL_(n))
#define mote_array_f64(name, from, n) (#name " f64[" MOTE_STRING_(n) "]\n", ARRAY, double, from, MOTE_DECIMAL_(n))
#define mote_array_bool(name, from, n) (#name " bool[" MOTE_STRING_(n) "]\n", ARRAY, mote_bool_, from, MOTE_DECIMAL_(n))

#define mote_seq_u8(name, from, n) (#name " u8[]\n", SEQUENCE, uint8_t, sizeof(uint8_t), from, n)
#define mote_seq_u16(name, from, n) (#name " u16[]\n", SEQUENCE, uint16_t, sizeof(uint16_t), from, n)
#define mote_seq_u32(name, from, n) (#name " u32[]\n", SEQUENCE, uint32_t, sizeof(uint32_t), from, n)
#define mote_seq_u64(name, from, n) (#name " u64[]\n", SEQUENCE, uint64_t, sizeof(uint64_t), from, n)
#define mote_seq_i8(name, from, n) (#name " i8[]\n", SEQUENCE, int8_t, sizeof(int8_t), from, n)
#define mote_seq_i16(name, from, n) (#name " i16[]\n", SEQUENCE, int16_t, sizeof(int16_t), from, n)
#define mote_seq_i32(name, from, n) (#name " i32[]\n", SEQUENCE, int32_t, sizeof(int32_t), from, n)
#define mote_seq_i64(name, from, n) (#name " i64[]\n", SEQUENCE, int64_t, sizeof(int64_t), from, n)
#define mote_seq_x8(name, from, n) (#name " x8[]\n", SEQUENCE, uint8_t, sizeof(uint8_t), from, n)
#define mote_seq_x16(name, from, n) (#name " x16[]\n", SEQUENCE, uint16_t, sizeof(uint16_t), from, n)
#define mote_seq_x32(name, from, n) (#name " x32[]\n", SEQUENCE, uint32_t, sizeof(uint32_t), from, n)
#define mote_seq_x64(name, from, n) (#name " x64[]\n", SEQUENCE, uint64_t, sizeof(uint64_t), from, n)
#define mote_seq_f32(name, from, n) (#name " f32[]\n", SEQUENCE, float, sizeof(float), from, n)
#define mote_seq_f64(name, from, n) (#name " f64[]\n", SEQUENCE, double, sizeof(double), from, n)
#define mote_seq_bool(name, from, n) (#name " bool[]\n", SEQUENCE, mote_bool_, sizeof(mote_bool_), from, n)

#define mote_enum_u8(name, value, labels) (#name " enum u8 " labels "\n", NUMBER, uint8_t, (value))
#define mote_enum_u16(name, value, labels) (#name " enum u16 " labels "\n", NUMBER, uint16_t, (value))
#define mote_enum_u32(name, value, labels) (#name " enum u32 " labels "\n", NUMBER, uint32_t, (value))
#define mote_enum_u64(name, value, labels) (#name " enum u64 " labels "\n", NUMBER, uint64_t, (value))
#define mote_enum_i8(name, value, labels) (#name " enum i8 " labels "\n", NUMBER, int8_t, (value))
#define mote_enum_i16(name, value, labels) (#name " enum i16 " labels "\n", NUMBER, int16_t, (value))
#define mote_enum_i32(name, value, labels) (#name " enum i32 " labels "\n", NUMBER, int32_t, (value))
#define mote_enum_i64(name, value, labels) (#name " enum i64 " labels "\n", NUMBER, int64_t, (value))
#define MOTE_LABEL(label, value) " " #label "=" MOTE_STRING_(value)

/* The description of an event: `mote list` reads it in the file, the session in the process. */
#define MOTE_DESCRIPTION_(full_name, level, text, ...)                                                    \
    "mote1\n" full_name "\n" MOTE_STRING_(level) " " __FILE__ ":" MOTE_STRING_(__LINE__) "\n" text \
    "\n" MOTE_EACH_(MOTE_DESCRIBE_, __VA_ARGS__)
#define MOTE_DESCRIBE_(i, field) MOTE_CALL_(MOTE_DESCRIBE_2_, (MOTE_OPEN_ field))
#define MOTE_DESCRIBE_2_(line, ...) line

/* ---- Packing ----------------------------------------------------------------------------------- */

/* Fields of up to this many bytes are packed on the stack; of a larger event, texts and sequences are
 * copied from where they lie. */
#define MOTE_SMALL_ 256
/* A constant size, where it matters: compilers look at copies in branches that are never taken. */
#define MOTE_IF_SMALL_(bytes) ((bytes) <= MOTE_SMALL_ ? (bytes) : 0)

MOTE_INLINE_ uint64_t mote_address_(const volatile void *pointer) {
    return MOTE_CAST_(uintptr_t, pointer);
}

MOTE_INLINE_ const char *mote_text_(const char *text) { return text ? text : "(null)"; }

/* Whether the event's filter is to be asked. */
#define MOTE_GATED_(event) __builtin_expect(__atomic_load_n(&(event)->gate, __ATOMIC_ACQUIRE) != 0, 0)
/* Not 0: where an event of a few numbers may go at once, with nothing in front of it. */
#define MOTE_DIRECT_(event) __atomic_load_n(&(event)->direct, __ATOMIC_ACQUIRE)
/* In place of a text that cannot be read, where events at which there is a fault are kept. */
#define MOTE_UNREADABLE_ "(unreadable)"
/* What is recorded without asking. */
#define MOTE_RECORD_ 1u

/* Length of a text with its NUL; 0 when it cannot be read, which is looked for while the event has a filter. */
MOTE_INLINE_ size_t mote_measure_(const char *text, int gated) {
    if (gated && !__builtin_constant_p(__builtin_strlen(text))) {
        const size_t n = mote_text_len(text);
        return n < SIZE_MAX / 256 ? n + 1 : 0;
    }
    return __builtin_strlen(text) + 1;
}

/* Words of a filter's context: numbers extended to 64 bits, and pointers. What ends behind the last address ends
 * there. */
MOTE_INLINE_ uint64_t mote_begin_(const void *from) { return MOTE_CAST_(uintptr_t, from); }
MOTE_INLINE_ uint64_t mote_end_(const void *from, size_t bytes) {
    const uint64_t begin = mote_begin_(from);
    return begin + bytes < begin ? begin : begin + bytes;
}
MOTE_INLINE_ uint64_t mote_real_word_(double value) {
    uint64_t word;
    __builtin_memcpy(&word, &value, sizeof word);
    return word;
}

/* More than can be counted makes an event that is lost as too big, and no sum that wraps around. */
MOTE_INLINE_ size_t mote_count_(const void *from, size_t n) { return !from ? 0 : n < 65536 ? n : 65536; }

/* The bytes of a number, zeros above; and where they belong in two words. All but the bytes is known to the
 * compiler. */
MOTE_INLINE_ uint64_t mote_bits_(const void *from, size_t n) {
    uint64_t whole;
    uint32_t half;
    uint16_t quarter;
    if (n == 8) {
        __builtin_memcpy(&whole, from, 8);
        return whole;
    }
    if (n == 4) {
        __builtin_memcpy(&half, from, 4);
        return half;
    }
    if (n == 2) {
        __builtin_memcpy(&quarter, from, 2);
        return quarter;
    }
    return *MOTE_CAST_(const unsigned char *, from);
}

MOTE_INLINE_ void mote_gather_(uint64_t *first, uint64_t *second, size_t at, uint64_t bits) {
    if (at == 0) {
        *first = bits;
    } else if (at < 8) {
        *first |= bits << 8 * at;
        *second |= bits >> (64 - 8 * at);
    } else if (at < 16) {
        *second |= bits << 8 * (at - 8);
    }
}

MOTE_INLINE_ char *mote_put_(char *to, const void *from, size_t n) {
    __builtin_memcpy(to, from, n);
    return to + n;
}

/* Up to 16 bytes without a call, by loads and stores that may overlap. */
MOTE_INLINE_ char *mote_put_short_(char *to, const void *from, size_t n) {
    const char *first = MOTE_CAST_(const char *, from);
#ifdef __OPTIMIZE__
    if (n > 16) {
        __builtin_memcpy(to, first, n);
    } else if (n >= 8) {
        __builtin_memcpy(to, first, 8);
        __builtin_memcpy(to + n - 8, first + n - 8, 8);
    } else if (n >= 4) {
        __builtin_memcpy(to, first, 4);
        __builtin_memcpy(to + n - 4, first + n - 4, 4);
    } else if (n > 0) {
        to[0] = first[0];
        to[n / 2] = first[n / 2];
        to[n - 1] = first[n - 1];
    }
#else
    __builtin_memcpy(to, first, n);
#endif
    return to + n;
}

MOTE_INLINE_ char *mote_put_text_(char *to, const char *text, size_t n) {
    to = mote_put_short_(to, text, n);
    *to = 0;
    return to + 1;
}

/* The values of the fields as parameters. */
#define MOTE_PARAMETER_(i, field) MOTE_CALL_(MOTE_PARAMETER_2_, (i, MOTE_OPEN_ field))
#define MOTE_PARAMETER_2_(i, line, kind, ...) MOTE_PARAMETER_##kind(i, __VA_ARGS__),
#define MOTE_PARAMETER_NUMBER(i, T, v) const T mote_v##i
#define MOTE_PARAMETER_TEXT(i, v) const char *mote_v##i
#define MOTE_PARAMETER_ARRAY(i, T, from, n) const T *mote_v##i
#define MOTE_PARAMETER_SEQUENCE(i, T, size, from, n) const T *mote_v##i, size_t mote_n##i

/* Whether the program has probes of its own at the event; whether it is recorded (PROBED in mote_layout::site). */
#define MOTE_IS_PROBED_(event)                                                                            \
    __builtin_expect((__atomic_load_n(&(event)->switch_, __ATOMIC_RELAXED) & 0x80000000u) != 0, 0)
#define MOTE_IS_RECORDED_(event) ((__atomic_load_n(&(event)->switch_, __ATOMIC_RELAXED) & ~0x80000000u) != 0)

/* Calls all probes with these values, which are a list with a comma at its end. */
#define MOTE_CALL_PROBES_(id, values)                                                                     \
    __attribute__((cleanup(mote_probes_leave_), unused)) const uintptr_t mote_section_ = mote_probes_enter(); \
    const struct mote_probe *mote_probe_ = __atomic_load_n(&id##_probes_.first, __ATOMIC_ACQUIRE);        \
    for (; mote_probe_; mote_probe_ = __atomic_load_n(&mote_probe_->next, __ATOMIC_ACQUIRE)) {            \
        MOTE_CAST_(id##_probe_, mote_probe_->call)(MOTE_OPEN_ values mote_probe_->data);                  \
    }

#ifdef __cplusplus

#define MOTE_HIDDEN_ __attribute__((visibility("hidden")))
#define MOTE_METHOD_ __attribute__((always_inline))

/* Each kind of field is a type, made from what the program gives. */
MOTE_INLINE_ uint64_t mote_word_(double value) { return mote_real_word_(value); }
MOTE_INLINE_ uint64_t mote_word_(float value) { return mote_real_word_(value); }
template <class T> MOTE_INLINE_ uint64_t mote_word_(T value) { return static_cast<uint64_t>(value); }

template <class T> struct MOTE_HIDDEN_ mote_number_ {
    using given = T;
    static constexpr size_t word_count = 1;
    static constexpr bool is_number = true;
    static constexpr size_t size = sizeof(T);
    T value;
    MOTE_METHOD_ explicit mote_number_(T v, int) : value(v) {}
    MOTE_METHOD_ bool torn() const { return false; }
    MOTE_METHOD_ uint64_t *words(uint64_t *to) const {
        *to = mote_word_(value);
        return to + 1;
    }
    MOTE_METHOD_ size_t len() const { return sizeof(T); }
    MOTE_METHOD_ char *put(char *to) const { return mote_put_(to, &value, sizeof(T)); }
    void list(mote_fragment *&next) const { *next++ = mote_fragment{&value, sizeof(T)}; }
};

struct MOTE_HIDDEN_ mote_text_kind_ {
    using given = const char *;
    static constexpr size_t word_count = 2;
    static constexpr bool is_number = false;
    static constexpr size_t size = 0;
    const char *text;
    size_t n;
    bool is_torn;
    MOTE_METHOD_ explicit mote_text_kind_(const char *t, int gated)
        : text(mote_text_(t)), n(mote_measure_(text, gated)), is_torn(gated && n == 0) {
        if (is_torn) {
            text = MOTE_UNREADABLE_;
            n = sizeof MOTE_UNREADABLE_;
        }
    }
    MOTE_METHOD_ bool torn() const { return is_torn; }
    MOTE_METHOD_ uint64_t *words(uint64_t *to) const {
        to[0] = mote_begin_(text);
        to[1] = mote_end_(text, n - 1);
        return to + 2;
    }
    MOTE_METHOD_ size_t len() const { return n; }
    MOTE_METHOD_ char *put(char *to) const { return mote_put_text_(to, text, n - 1); }
    void list(mote_fragment *&next) const { *next++ = mote_fragment{text, n}; }
};

template <class T, size_t BYTES> struct MOTE_HIDDEN_ mote_array_ {
    using given = const T *;
    static constexpr size_t word_count = 1;
    static constexpr bool is_number = false;
    static constexpr size_t size = 0;
    const T *from;
    MOTE_METHOD_ explicit mote_array_(const T *f, int) : from(f) {}
    MOTE_METHOD_ bool torn() const { return false; }
    MOTE_METHOD_ uint64_t *words(uint64_t *to) const {
        *to = mote_begin_(from);
        return to + 1;
    }
    MOTE_METHOD_ size_t len() const { return BYTES; }
    MOTE_METHOD_ char *put(char *to) const { return mote_put_(to, from, MOTE_IF_SMALL_(BYTES)); }
    void list(mote_fragment *&next) const { *next++ = mote_fragment{from, BYTES}; }
};

template <class T> struct MOTE_HIDDEN_ mote_range_ {
    const T *from;
    size_t n;
    MOTE_METHOD_ mote_range_(const T *f, size_t n_) : from(f), n(n_) {}
};

template <class T, size_t SIZE> struct MOTE_HIDDEN_ mote_sequence_ {
    using given = mote_range_<T>;
    static constexpr size_t word_count = 2;
    static constexpr bool is_number = false;
    static constexpr size_t size = 0;
    const T *from;
    size_t n;
    uint16_t count;
    MOTE_METHOD_ explicit mote_sequence_(given g, int)
        : from(g.from), n(mote_count_(g.from, g.n)), count(static_cast<uint16_t>(n)) {}
    MOTE_METHOD_ bool torn() const { return false; }
    MOTE_METHOD_ uint64_t *words(uint64_t *to) const {
        to[0] = mote_begin_(from);
        to[1] = mote_end_(from, SIZE * n);
        return to + 2;
    }
    MOTE_METHOD_ size_t len() const { return sizeof count + SIZE * n; }
    MOTE_METHOD_ char *put(char *to) const {
        return mote_put_short_(mote_put_(to, &count, sizeof count), from, SIZE * n);
    }
    void list(mote_fragment *&next) const {
        *next++ = mote_fragment{&count, sizeof count};
        *next++ = mote_fragment{from, SIZE * n};
    }
};

template <class... F>
MOTE_HIDDEN_ __attribute__((noinline)) void mote_write_large_(const mote_event *event, size_t len,
                                                              uint64_t verdict, const F... fields) {
    mote_fragment list[2 * sizeof...(F) + 1];
    mote_fragment *next = list;
    (fields.list(next), ...);
    mote_record_fragments(event, list, static_cast<size_t>(next - list), len, verdict);
}

template <class... F>
MOTE_HIDDEN_ __attribute__((noinline)) uint64_t mote_ask_(const mote_event *event, const F &...fields) {
    uint64_t words[(size_t{1} + ... + F::word_count)];
    uint64_t *to = words;
    ((to = fields.words(to)), ...);
    *to = 0;
    return (false || ... || fields.torn()) ? mote_fault(event) : mote_judge(event, words);
}

template <class... F>
MOTE_METHOD_ inline void mote_write_ready_(const mote_event *event, int gated, const F... fields) {
    if constexpr ((true && ... && F::is_number) && (size_t{0} + ... + F::size) <= 16) {
        const uint64_t direct = MOTE_DIRECT_(event);
        if (direct) {
            uint64_t first = 0, second = 0;
            size_t at = 0;
            ((mote_gather_(&first, &second, at, mote_bits_(&fields.value, F::size)), at += F::size), ...);
            mote_record_packed(first, second, direct, at);
            return;
        }
    }
    const uint64_t verdict = gated ? mote_ask_(event, fields...) : MOTE_RECORD_;
    if (verdict == 0) return;
    const size_t len = (size_t{0} + ... + fields.len());
    if (len <= MOTE_SMALL_) {
        uint64_t small[MOTE_SMALL_ / 8];
        char *to = reinterpret_cast<char *>(small);
        ((to = fields.put(to)), ...);
        const void *from = to == reinterpret_cast<char *>(small) ? static_cast<const void *>(event) : small;
        if (gated) {
            mote_record_judged(event, from, len, verdict);
        } else {
            mote_record(event, from, len);
        }
    } else {
        mote_write_large_(event, len, verdict, fields...);
    }
}

/* One for all events with the same types of fields. Out of line, so that a function with an event needs no stack frame
 * for it. Its values may borrow from temporaries: mote_str(path, path.string().c_str()). */
template <class, class... F>
MOTE_HIDDEN_ __attribute__((noinline)) void mote_write_(typename F::given... values, const mote_event *event) {
    const int gated = MOTE_GATED_(event);
    mote_write_ready_(event, gated, F(values, gated)...);
}

#define MOTE_WRITE_(event, ...)                                                                           \
    mote_write_<void MOTE_EACH_(MOTE_KIND_, __VA_ARGS__)>(MOTE_EACH_(MOTE_VALUE_, __VA_ARGS__) &event)
#define MOTE_KIND_(i, field) MOTE_CALL_(MOTE_KIND_2_, (MOTE_OPEN_ field))
#define MOTE_KIND_2_(line, kind, ...) , MOTE_KIND_##kind(__VA_ARGS__)
#define MOTE_KIND_NUMBER(T, v) mote_number_<T>
#define MOTE_KIND_TEXT(v) mote_text_kind_
#define MOTE_KIND_ARRAY(T, from, n) mote_array_<T, sizeof(T) * n>
#define MOTE_KIND_SEQUENCE(T, size, from, n) mote_sequence_<T, size>

#define MOTE_VALUE_(i, field) MOTE_CALL_(MOTE_VALUE_2_, (MOTE_OPEN_ field))
#define MOTE_VALUE_2_(line, kind, ...) MOTE_VALUE_##kind(__VA_ARGS__),
#define MOTE_VALUE_NUMBER(T, v) v
#define MOTE_VALUE_TEXT(v) v
#define MOTE_VALUE_ARRAY(T, from, n) from
#define MOTE_VALUE_SEQUENCE(T, size, from, n) mote_range_<T>(from, n)

/* A static variable of its own for each Tag: of one name in all files that have the same inline function or template,
 * and never visible outside of the object, which a static variable inside such a function would be. */
template <class Tag> struct MOTE_HIDDEN_ mote_static_ {
    static mote_event event;
};
template <class Tag> mote_event mote_static_<Tag>::event = {};

#define MOTE_DEFINE_                                                                                      \
    struct mote_tag_ {};                                                                                  \
    using mote_here_ = mote_static_<mote_tag_>
#define MOTE_DEFINED_ mote_here_::event

#define MOTE_DECLARE_(id, description)                                                                    \
    struct id##_tag_;                                                                                     \
    using id##_here_ = mote_static_<id##_tag_>;                                                           \
    MOTE_HIDDEN_ inline constexpr char id##_text_[] = description;
#define MOTE_DECLARED_EVENT_(id) id##_here_::event
#define MOTE_DECLARED_TEXT_(id) id##_text_
#define MOTE_WRITE_DECLARED_(event, ...)                                                                  \
    const int mote_gated_ = MOTE_GATED_(&event);                                                          \
    mote_write_ready_(&event, mote_gated_ MOTE_EACH_(MOTE_MADE_, __VA_ARGS__))
#define MOTE_MADE_(i, field) MOTE_CALL_(MOTE_MADE_2_, (MOTE_OPEN_ field))
#define MOTE_MADE_2_(line, kind, ...)                                                                     \
    , MOTE_KIND_##kind(__VA_ARGS__)(MOTE_VALUE_##kind(__VA_ARGS__), mote_gated_)

/* A declared event: its values are made once, for probes and for the record. */
template <class, class... F> struct MOTE_HIDDEN_ mote_declared_ {
    MOTE_METHOD_ static void write(typename F::given... values, const mote_event *event,
                                   void (*probes)(typename F::given..., int)) {
        if (MOTE_IS_PROBED_(event)) {
            probes(values..., 0);
            if (!MOTE_IS_RECORDED_(event)) return;
        }
        const int gated = MOTE_GATED_(event);
        mote_write_ready_(event, gated, F(values, gated)...);
    }
};
#define MOTE_WRITE_PROBED_(id, ...)                                                                       \
    mote_declared_<void MOTE_EACH_(MOTE_KIND_, __VA_ARGS__)>::write(                                      \
        MOTE_EACH_(MOTE_VALUE_, __VA_ARGS__) &MOTE_DECLARED_EVENT_(id), id##_call_)
#define MOTE_DECLARE_PROBES_(id, ...)                                                                     \
    MOTE_HIDDEN_ inline mote_probes id##_probes_ = {nullptr};                                             \
    using id##_probe_ = void (*)(MOTE_EACH_(MOTE_PARAMETER_, __VA_ARGS__) void *);                        \
    MOTE_OUTLINE_ __attribute__((cold)) void id##_call_(MOTE_EACH_(MOTE_GIVEN_, __VA_ARGS__) int) {       \
        MOTE_CALL_PROBES_(id, (MOTE_EACH_(MOTE_SPREAD_, __VA_ARGS__)))                                    \
    }
#define MOTE_GIVEN_(i, field) MOTE_CALL_(MOTE_GIVEN_2_, (i, MOTE_OPEN_ field))
#define MOTE_GIVEN_2_(i, line, kind, ...) MOTE_KIND_##kind(__VA_ARGS__)::given mote_v##i,
#define MOTE_SPREAD_(i, field) MOTE_CALL_(MOTE_SPREAD_2_, (i, MOTE_OPEN_ field))
#define MOTE_SPREAD_2_(i, line, kind, ...) MOTE_SPREAD_##kind(i),
#define MOTE_SPREAD_NUMBER(i) mote_v##i
#define MOTE_SPREAD_TEXT(i) mote_v##i
#define MOTE_SPREAD_ARRAY(i) mote_v##i
#define MOTE_SPREAD_SEQUENCE(i) mote_v##i.from, mote_v##i.n
#define MOTE_PREPARE_(...)
#define MOTE_OUTLINE_ inline __attribute__((noinline, visibility("hidden")))

#else

/* An event written where it stands. With gcc in a function of its own (nested in the program's, of which it uses
 * nothing), so that a function with an event needs no stack frame for it. */
#ifndef __clang__
#define MOTE_PREPARE_(...)                                                                                \
    __attribute__((noinline)) void mote_write_all_(MOTE_EACH_(MOTE_PARAMETER_, __VA_ARGS__)               \
                                                   const struct mote_event *mote_event_) {                \
        MOTE_PACK_ALL_(*mote_event_, __VA_ARGS__)                                                         \
    }                                                                                                     \
    __attribute__((noinline)) void mote_write_(MOTE_EACH_(MOTE_PARAMETER_, __VA_ARGS__)                   \
                                               const struct mote_event *mote_event_) {                    \
        MOTE_PACK_(*mote_event_, mote_write_all_(MOTE_EACH_(MOTE_PASS_, __VA_ARGS__) mote_event_);, __VA_ARGS__)\
    }
#define MOTE_WRITE_(event, ...) mote_write_(MOTE_EACH_(MOTE_VALUE_, __VA_ARGS__) &event)
#else
#define MOTE_PREPARE_(...)
#define MOTE_WRITE_(event, ...)                                                                           \
    MOTE_EACH_(MOTE_LOCAL_, __VA_ARGS__)                                                                  \
    MOTE_PACK_(event, MOTE_PACK_ALL_(event, __VA_ARGS__), __VA_ARGS__)
#endif

/* The fields are variables, numbered; then come passes over all of them. */
#define MOTE_PACK_(event, otherwise, ...)                                                                 \
    const uint64_t mote_direct_ = MOTE_DIRECT_(&(event));                                                 \
    if (MOTE_ARE_NUMBERS_(__VA_ARGS__) && MOTE_SIZE_(__VA_ARGS__) <= 16 && mote_direct_) {                \
        uint64_t mote_first_ = 0, mote_second_ = 0;                                                       \
        size_t mote_at_ = 0;                                                                              \
        MOTE_EACH_(MOTE_GATHER_, __VA_ARGS__)                                                             \
        mote_record_packed(mote_first_, mote_second_, mote_direct_, mote_at_);                            \
    } else {                                                                                              \
        otherwise                                                                                         \
    }

/* Numbers of 16 bytes together are packed in two registers. */
#define MOTE_ARE_NUMBERS_(...) (1 MOTE_EACH_(MOTE_IS_NUMBER_, __VA_ARGS__))
#define MOTE_IS_NUMBER_(i, field) MOTE_CALL_(MOTE_IS_NUMBER_2_, (MOTE_OPEN_ field))
#define MOTE_IS_NUMBER_2_(line, kind, ...) &&MOTE_IS_NUMBER_##kind
#define MOTE_IS_NUMBER_NUMBER 1
#define MOTE_IS_NUMBER_TEXT 0
#define MOTE_IS_NUMBER_ARRAY 0
#define MOTE_IS_NUMBER_SEQUENCE 0
#define MOTE_SIZE_(...) (0 MOTE_EACH_(MOTE_SIZE_2_, __VA_ARGS__))
#define MOTE_SIZE_2_(i, field) MOTE_CALL_(MOTE_SIZE_3_, (MOTE_OPEN_ field))
#define MOTE_SIZE_3_(line, kind, ...) +MOTE_SIZE_##kind(__VA_ARGS__)
#define MOTE_SIZE_NUMBER(T, v) sizeof(T)
#define MOTE_SIZE_TEXT(v) 0
#define MOTE_SIZE_ARRAY(T, from, n) 0
#define MOTE_SIZE_SEQUENCE(T, size, from, n) 0
#define MOTE_GATHER_(i, field) MOTE_CALL_(MOTE_GATHER_2_, (i, MOTE_OPEN_ field))
#define MOTE_GATHER_2_(i, line, kind, ...) MOTE_GATHER_##kind(i, __VA_ARGS__)
#define MOTE_GATHER_NUMBER(i, T, v)                                                                       \
    mote_gather_(&mote_first_, &mote_second_, mote_at_, mote_bits_(&mote_v##i, sizeof(T)));               \
    mote_at_ += sizeof(T);
#define MOTE_GATHER_TEXT(i, v)
#define MOTE_GATHER_ARRAY(i, T, from, n)
#define MOTE_GATHER_SEQUENCE(i, T, size, from, n)

#define MOTE_PACK_ALL_(event, ...)                                                                        \
    const int mote_gated_ = MOTE_GATED_(&(event));                                                        \
    MOTE_EACH_(MOTE_READY_, __VA_ARGS__)                                                                  \
    uint64_t mote_verdict_ = MOTE_RECORD_;                                                                \
    if (mote_gated_) {                                                                                    \
        const uint64_t mote_words_[] = {MOTE_EACH_(MOTE_WORD_, __VA_ARGS__) 0};                           \
        mote_verdict_ = (0 MOTE_EACH_(MOTE_TORN_, __VA_ARGS__)) ? mote_fault(&(event))                    \
                                                                : mote_judge(&(event), mote_words_);      \
    }                                                                                                     \
    const size_t mote_len_ = 0 MOTE_EACH_(MOTE_LEN_, __VA_ARGS__);                                        \
    if (mote_verdict_ == 0) {                                                                             \
    } else if (mote_len_ <= MOTE_SMALL_) {                                                                \
        uint64_t mote_small_[MOTE_SMALL_ / 8];                                                            \
        char *mote_to_ = (char *)mote_small_;                                                             \
        MOTE_EACH_(MOTE_PUT_, __VA_ARGS__)                                                                \
        const void *mote_from_ = mote_to_ == (char *)mote_small_ ? (const void *)&(event) : mote_small_;  \
        if (mote_gated_) {                                                                                \
            mote_record_judged(&(event), mote_from_, mote_len_, mote_verdict_);                           \
        } else {                                                                                          \
            mote_record(&(event), mote_from_, mote_len_);                                                 \
        }                                                                                                 \
    } else {                                                                                              \
        /* Numbers and counts are gathered beside. */                                                     \
        char mote_beside_[1 MOTE_EACH_(MOTE_BESIDE_, __VA_ARGS__)], *mote_to_ = mote_beside_;             \
        struct mote_fragment mote_list_[1 MOTE_EACH_(MOTE_PIECES_, __VA_ARGS__)], *mote_next_ = mote_list_; \
        MOTE_EACH_(MOTE_LIST_, __VA_ARGS__)                                                               \
        (void)mote_to_;                                                                                   \
        mote_record_fragments(&(event), mote_list_, (size_t)(mote_next_ - mote_list_), mote_len_,         \
                              mote_verdict_);                                                             \
    }

/* Those parameters again, for a call. */
#define MOTE_PASS_(i, field) MOTE_CALL_(MOTE_PASS_2_, (i, MOTE_OPEN_ field))
#define MOTE_PASS_2_(i, line, kind, ...) MOTE_PASS_##kind(i),
#define MOTE_PASS_NUMBER(i) mote_v##i
#define MOTE_PASS_TEXT(i) mote_v##i
#define MOTE_PASS_ARRAY(i) mote_v##i
#define MOTE_PASS_SEQUENCE(i) mote_v##i, mote_n##i

#define MOTE_VALUE_(i, field) MOTE_CALL_(MOTE_VALUE_2_, (MOTE_OPEN_ field))
#define MOTE_VALUE_2_(line, kind, ...) MOTE_VALUE_##kind(__VA_ARGS__),
#define MOTE_VALUE_NUMBER(T, v) v
#define MOTE_VALUE_TEXT(v) v
#define MOTE_VALUE_ARRAY(T, from, n) from
#define MOTE_VALUE_SEQUENCE(T, size, from, n) from, n

#define MOTE_LOCAL_(i, field) MOTE_CALL_(MOTE_LOCAL_2_, (i, MOTE_OPEN_ field))
#define MOTE_LOCAL_2_(i, line, kind, ...) MOTE_LOCAL_##kind(i, __VA_ARGS__)
#define MOTE_LOCAL_NUMBER(i, T, v) const T mote_v##i = v;
#define MOTE_LOCAL_TEXT(i, v) const char *mote_v##i = v;
#define MOTE_LOCAL_ARRAY(i, T, from, n) const T *const mote_v##i = (from);
#define MOTE_LOCAL_SEQUENCE(i, T, size, from, n)                                                          \
    const T *const mote_v##i = (from);                                                                    \
    size_t mote_n##i = (n);

#define MOTE_READY_(i, field) MOTE_CALL_(MOTE_READY_2_, (i, MOTE_OPEN_ field))
#define MOTE_READY_2_(i, line, kind, ...) MOTE_READY_##kind(i)
#define MOTE_READY_NUMBER(i)
#define MOTE_READY_TEXT(i)                                                                                \
    mote_v##i = mote_text_(mote_v##i);                                                                    \
    size_t mote_n##i = mote_measure_(mote_v##i, mote_gated_);                                              \
    const int mote_torn##i = mote_gated_ && mote_n##i == 0;                                               \
    if (mote_torn##i) {                                                                                   \
        mote_v##i = MOTE_UNREADABLE_;                                                                     \
        mote_n##i = sizeof MOTE_UNREADABLE_;                                                              \
    }
#define MOTE_READY_ARRAY(i)
#define MOTE_READY_SEQUENCE(i)                                                                            \
    mote_n##i = mote_count_(mote_v##i, mote_n##i);                                                        \
    const uint16_t mote_c##i = (uint16_t)mote_n##i;

#define MOTE_TORN_(i, field) MOTE_CALL_(MOTE_TORN_2_, (i, MOTE_OPEN_ field))
#define MOTE_TORN_2_(i, line, kind, ...) MOTE_TORN_##kind(i)
#define MOTE_TORN_NUMBER(i)
#define MOTE_TORN_TEXT(i) || mote_torn##i
#define MOTE_TORN_ARRAY(i)
#define MOTE_TORN_SEQUENCE(i)

MOTE_INLINE_ uint64_t mote_whole_word_(uint64_t value) { return value; }
#define MOTE_WORD_(i, field) MOTE_CALL_(MOTE_WORD_2_, (i, MOTE_OPEN_ field))
#define MOTE_WORD_2_(i, line, kind, ...) MOTE_WORD_##kind(i, __VA_ARGS__),
#define MOTE_WORD_NUMBER(i, T, v)                                                                         \
    _Generic((T)0, float: mote_real_word_, double: mote_real_word_, default: mote_whole_word_)(mote_v##i)
#define MOTE_WORD_TEXT(i, v) mote_begin_(mote_v##i), mote_end_(mote_v##i, mote_n##i - 1)
#define MOTE_WORD_ARRAY(i, T, from, n) mote_begin_(mote_v##i)
#define MOTE_WORD_SEQUENCE(i, T, size, from, n) mote_begin_(mote_v##i), mote_end_(mote_v##i, size * mote_n##i)

#define MOTE_LEN_(i, field) MOTE_CALL_(MOTE_LEN_2_, (i, MOTE_OPEN_ field))
#define MOTE_LEN_2_(i, line, kind, ...) +MOTE_LEN_##kind(i, __VA_ARGS__)
#define MOTE_LEN_NUMBER(i, T, v) sizeof(T)
#define MOTE_LEN_TEXT(i, v) mote_n##i
#define MOTE_LEN_ARRAY(i, T, from, n) sizeof(T) * n
#define MOTE_LEN_SEQUENCE(i, T, size, from, n) sizeof mote_c##i + size * mote_n##i

#define MOTE_PUT_(i, field) MOTE_CALL_(MOTE_PUT_2_, (i, MOTE_OPEN_ field))
#define MOTE_PUT_2_(i, line, kind, ...) mote_to_ = MOTE_PUT_##kind(i, __VA_ARGS__);
#define MOTE_PUT_NUMBER(i, T, v) mote_put_(mote_to_, &mote_v##i, sizeof(T))
#define MOTE_PUT_TEXT(i, v) mote_put_text_(mote_to_, mote_v##i, mote_n##i - 1)
#define MOTE_PUT_ARRAY(i, T, from, n) mote_put_(mote_to_, mote_v##i, MOTE_IF_SMALL_(sizeof(T) * n))
#define MOTE_PUT_SEQUENCE(i, T, size, from, n)                                                            \
    mote_put_short_(mote_put_(mote_to_, &mote_c##i, sizeof mote_c##i), mote_v##i, size * mote_n##i)

#define MOTE_BESIDE_(i, field) MOTE_CALL_(MOTE_BESIDE_2_, (MOTE_OPEN_ field))
#define MOTE_BESIDE_2_(line, kind, ...) +MOTE_BESIDE_##kind(__VA_ARGS__)
#define MOTE_BESIDE_NUMBER(T, v) sizeof(T)
#define MOTE_BESIDE_TEXT(v) 0
#define MOTE_BESIDE_ARRAY(T, from, n) 0
#define MOTE_BESIDE_SEQUENCE(T, size, from, n) sizeof(uint16_t)

#define MOTE_PIECES_(i, field) +2
#define MOTE_LIST_(i, field) MOTE_CALL_(MOTE_LIST_2_, (i, MOTE_OPEN_ field))
#define MOTE_LIST_2_(i, line, kind, ...) MOTE_LIST_##kind(i, __VA_ARGS__)
#define MOTE_PIECE_(p, n) *mote_next_++ = (struct mote_fragment){p, n};
#define MOTE_LIST_NUMBER(i, T, v)                                                                         \
    MOTE_PIECE_(mote_to_, sizeof(T))                                                                      \
    mote_to_ = mote_put_(mote_to_, &mote_v##i, sizeof(T));
#define MOTE_LIST_TEXT(i, v) MOTE_PIECE_(mote_v##i, mote_n##i)
#define MOTE_LIST_ARRAY(i, T, from, n) MOTE_PIECE_(mote_v##i, sizeof(T) * n)
#define MOTE_LIST_SEQUENCE(i, T, size, from, n)                                                           \
    MOTE_PIECE_(mote_to_, sizeof mote_c##i)                                                               \
    mote_to_ = mote_put_(mote_to_, &mote_c##i, sizeof mote_c##i);                                         \
    MOTE_PIECE_(mote_v##i, size * mote_n##i)

#define MOTE_DEFINE_ static struct mote_event mote_here_
#define MOTE_DEFINED_ mote_here_

#define MOTE_DECLARE_(id, description)                                                                    \
    __attribute__((weak, visibility("hidden"))) struct mote_event id##_event_;                            \
    __attribute__((weak, visibility("hidden"))) const char id##_text_[] = description;
#define MOTE_DECLARED_EVENT_(id) id##_event_
#define MOTE_DECLARED_TEXT_(id) id##_text_
#define MOTE_WRITE_DECLARED_(event, ...)                                                                  \
    MOTE_EACH_(MOTE_LOCAL_, __VA_ARGS__)                                                                  \
    MOTE_PACK_(event, MOTE_PACK_ALL_(event, __VA_ARGS__), __VA_ARGS__)
#define MOTE_OUTLINE_ static __attribute__((noinline, unused))
#define MOTE_WRITE_PROBED_(id, ...)                                                                       \
    MOTE_EACH_(MOTE_LOCAL_, __VA_ARGS__)                                                                  \
    if (MOTE_IS_PROBED_(&MOTE_DECLARED_EVENT_(id))) {                                                     \
        id##_call_(MOTE_EACH_(MOTE_PASS_, __VA_ARGS__) 0);                                                \
        if (!MOTE_IS_RECORDED_(&MOTE_DECLARED_EVENT_(id))) return;                                        \
    }                                                                                                     \
    MOTE_PACK_(MOTE_DECLARED_EVENT_(id), MOTE_PACK_ALL_(MOTE_DECLARED_EVENT_(id), __VA_ARGS__), __VA_ARGS__)
#define MOTE_DECLARE_PROBES_(id, ...)                                                                     \
    __attribute__((weak, visibility("hidden"))) struct mote_probes id##_probes_;                          \
    typedef void (*id##_probe_)(MOTE_EACH_(MOTE_PARAMETER_, __VA_ARGS__) void *mote_data_);               \
    MOTE_OUTLINE_ __attribute__((cold)) void id##_call_(MOTE_EACH_(MOTE_PARAMETER_, __VA_ARGS__) int mote_) { \
        (void)mote_;                                                                                      \
        MOTE_CALL_PROBES_(id, (MOTE_EACH_(MOTE_PASS_, __VA_ARGS__)))                                      \
    }

#endif

/* ---- Events ------------------------------------------------------------------------------------ */

/* An event declared where it stands: mote_event(PROVIDER, NAME, LEVEL, "what it means" [, FIELD]...); */
#define mote_event(provider, name, level, ...)                                                            \
    MOTE_EVENT_(MOTE_DESCRIPTION_(#provider ":" #name, level, MOTE_FIRST_(__VA_ARGS__), __VA_ARGS__), __VA_ARGS__)

/* A place for a probe, in one line: MOTE_PROBE(NAME [, FIELD]...); an event of the provider `probe` without a text. */
#define MOTE_PROBE(...)                                                                                   \
    MOTE_EVENT_(                                                                                          \
        MOTE_DESCRIPTION_("probe:" MOTE_STRING_(MOTE_FIRST_(__VA_ARGS__)), MOTE_INFO, "", __VA_ARGS__),   \
        __VA_ARGS__)

#define MOTE_EVENT_(description, ...)                                                                     \
    __extension__({                                                                                       \
        MOTE_DEFINE_;                                                                                     \
        MOTE_PREPARE_(__VA_ARGS__)                                                                        \
        MOTE_WHEN_ON_(MOTE_DEFINED_, description, MOTE_WRITE_(MOTE_DEFINED_, __VA_ARGS__))                \
        (void)0;                                                                                          \
    })

/* An event declared once: MOTE_TRACEPOINT(PROVIDER, NAME, LEVEL, "what it means", (PARAMETERS) [, FIELD]...) */
#define MOTE_TRACEPOINT(provider, name, level, ...)                                                       \
    MOTE_TRACEPOINT_(mote_tracepoint_##provider##_event_##name, #provider ":" #name, level, __VA_ARGS__)

#define MOTE_TRACEPOINT_(id, full_name, level, text, ...)                                                 \
    MOTE_DECLARE_(id, MOTE_DESCRIPTION_(full_name, level, text, __VA_ARGS__))                             \
    MOTE_DECLARE_PROBES_(id, __VA_ARGS__)                                                                 \
    MOTE_OUTLINE_ void id MOTE_FIRST_(__VA_ARGS__) { MOTE_WRITE_PROBED_(id, __VA_ARGS__); }

/* Emits an event so declared: mote_emit(PROVIDER, NAME [, ARGUMENT]...); */
#define mote_emit(provider, ...) MOTE_EMIT_(mote_tracepoint_##provider##_event_##__VA_ARGS__)
#define MOTE_EMIT_(...) MOTE_EMIT_2_(MOTE_FIRST_(__VA_ARGS__), MOTE_REST_(__VA_ARGS__))

#define MOTE_EMIT_2_(id, arguments)                                                                       \
    __extension__({                                                                                       \
        MOTE_WHEN_ON_(MOTE_DECLARED_EVENT_(id), MOTE_DECLARED_TEXT_(id), id arguments)                    \
        (void)0;                                                                                          \
    })

/* True while an event so declared is on; costs what a disabled event costs. */
#define mote_is_on(provider, name) MOTE_IS_ON_(mote_tracepoint_##provider##_event_##name)
#define MOTE_IS_ON_(id)                                                                                   \
    __extension__({                                                                                       \
        mote_bool_ mote_answer_ = 0;                                                                      \
        MOTE_WHEN_ON_(MOTE_DECLARED_EVENT_(id), MOTE_DECLARED_TEXT_(id), mote_answer_ = 1)                \
        mote_answer_;                                                                                     \
    })

/* ---- Probes of the program's own -----------------------------------------------------------------
 *
 * A function that is called wherever a declared event is emitted, by the thread that emits it, with the values of the
 * fields and with `data`, whether somebody records the event or not:
 *
 *   static void seen(uint32_t len, const char *proto, void *data);
 *
 *   struct mote_connection *connection = mote_connect(net, packet_in, seen, &counters);
 *   mote_disconnect(connection);
 *
 * A number comes as its type (a truth value as uint8_t), a text as const char * as the program gave it, an array as
 * where
 * it begins, a sequence as where it begins and how many there are. Several are called in the order in which they were
 * connected; rules of a recorder do not matter to them. A probe returns to its caller (no longjmp). It may connect and
 * disconnect. An object that is to be unloaded disconnects first what is connected to its events, and its functions. */

/* The connection; or null, and errno says why: as for mote_switch_set, or ENOMEM. Not for signal handlers. */
#define mote_connect(provider, name, function, data)                                                      \
    MOTE_CONNECT_(mote_tracepoint_##provider##_event_##name, function, data)
#define MOTE_CONNECT_(id, function, data)                                                                 \
    __extension__({                                                                                       \
        const id##_probe_ mote_probe_ = (function);                                                       \
        mote_connect_(mote_sites_first_, mote_sites_end_, &MOTE_DECLARED_EVENT_(id), &id##_probes_,       \
                      MOTE_CAST_(void (*)(void), mote_probe_), (data));                                   \
    })

#ifdef __cplusplus
extern "C" {
#endif
/* No pass that starts after this calls the probe; threads may still be in it. Null is ignored. Not for signal
 * handlers. */
MOTE_API_ void mote_disconnect(struct mote_connection *connection);
/* Waits until no thread is in a probe any more that was disconnected before: what it used can be freed then. 1; or 0 at
 * once, inside of a probe, where it would wait for itself. The caller holds no lock that a probe takes. */
MOTE_API_ int mote_wait_for_probes(void);
#ifdef __cplusplus
}
#endif

/* ---- Switches of the program's own --------------------------------------------------------------
 *
 * A condition that is part of the instructions: mote_switched(checks) is a NOP while the switch is off and a jump
 * while it
 * is on. It is turned while threads run, with or without a recorder, and belongs to the program or library that it is
 * linked into. It is off at the beginning. In a header or in one or several source files, at the outermost level:
 *
 *   MOTE_SWITCH(checks);
 *
 *   if (mote_switched(checks)) check_everything();
 *   mote_switch_set(&checks, 1);
 */
struct mote_switch {
    uint32_t switch_; /* not 0: it is on */
};
#ifdef __cplusplus
#define MOTE_SWITCH(name) inline __attribute__((visibility("hidden"))) struct mote_switch name = {0}
#else
#define MOTE_SWITCH(name) __attribute__((weak, visibility("hidden"))) struct mote_switch name
#endif

/* True while the switch is on. May stand wherever an event may. */
#define mote_switched(name)                                                                               \
    __extension__({                                                                                       \
        mote_bool_ mote_answer_ = 0;                                                                      \
        MOTE_WHEN_SWITCHED_(name, mote_answer_ = 1)                                                       \
        mote_answer_;                                                                                     \
    })

/* A switch, and how it is to be turned. */
struct mote_flip {
    struct mote_switch *which;
    int on;
};

#ifdef __cplusplus
extern "C" {
#endif
MOTE_API_ int mote_flip_(const void *first, const void *end, const struct mote_flip *list, size_t count);
#ifdef __cplusplus
}
#endif

/* Turns several switches in one go, all of them or none. 0; or an error number, and all are as they were: EBUSY while a
 * thread or a handler blocks SIGTRAP or a debugger is attached (two seconds are waited for that), others where text
 * cannot
 * be changed. When it returns 0, every pass that starts afterwards, on any thread, goes the new way. It waits while the
 * process joins a recording. Not for signal handlers, nor after vfork. */
MOTE_INLINE_ int mote_switch_flip(const struct mote_flip *list, size_t count) {
    return mote_flip_(mote_sites_first_, mote_sites_end_, list, count);
}
MOTE_INLINE_ int mote_switch_set(struct mote_switch *which, int on) {
    const struct mote_flip one = {which, on};
    return mote_switch_flip(&one, 1);
}
/* Whether it is on, by a load. */
MOTE_INLINE_ int mote_switch_is_on(const struct mote_switch *which) {
    return __atomic_load_n(&which->switch_, __ATOMIC_ACQUIRE) != 0;
}

/* ---- Quick text --------------------------------------------------------------------------------- */

/* An event mote:note of level MOTE_DEBUG with the field `text`, made as by printf and only while it is on. A text of
 * more than 511 bytes is cut, between two characters of UTF-8. The C library's vsnprintf makes it: for %s, %d,
 * %p and the like it allocates nothing; for wide characters, positions and large precisions of numbers it may. */
#define mote_tracef(...)                                                                                  \
    MOTE_TRACEF_(MOTE_DESCRIPTION_("mote:note", MOTE_DEBUG, "", "", mote_str(text, "")), __VA_ARGS__)
#define MOTE_NOTE_ 512
#define MOTE_TRACEF_(description, ...)                                                                    \
    __extension__({                                                                                       \
        MOTE_DEFINE_;                                                                                     \
        MOTE_WHEN_ON_(MOTE_DEFINED_, description, mote_note_(&MOTE_DEFINED_, __VA_ARGS__))                \
        (void)0;                                                                                          \
    })

MOTE_OUTLINE_ __attribute__((cold, format(printf, 2, 3))) void mote_note_(const struct mote_event *event,
                                                                          const char *format, ...) {
    const int before = errno;
    char text[MOTE_NOTE_];
    va_list arguments;
    va_start(arguments, format);
    const int len = __builtin_vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (len < 0) {
        text[0] = 0; /* an argument that cannot be shown */
    } else if (len >= MOTE_NOTE_) {
        /* A character that has lost some of its bytes goes. */
        int last = MOTE_NOTE_ - 2;
        while (last > MOTE_NOTE_ - 5 && (text[last] & 0xc0) == 0x80) last--;
        const int first = text[last] & 0xff;
        const int whole = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
        if (last + whole > MOTE_NOTE_ - 1) text[last] = 0;
    }
    MOTE_WRITE_DECLARED_(*event, "", mote_str(text, text));
    errno = before;
}

/* ---- Cooperation with the kernel's side ---------------------------------------------------------
 *
 * What the program tells `mote record -k` and `mote latency`, and what it is told, through memory that both sides map:
 * no system call but at a thread's first use. While the program is not traced each costs a call, a load and a branch.
 * All but the ..._open functions may be called in signal handlers. See docs/cooperation.md. */

#ifdef __cplusplus
extern "C" {
#endif

/* In place of nanoseconds: nothing is recorded; what the process says, or else the session. */
#define MOTE_NEVER UINT64_MAX
#define MOTE_DEFAULT (UINT64_MAX - 1)

/* From which duration on a system call (SYS_write of <sys/syscall.h>) of this thread is worth recording. 1; or 0: no
 * session will know, because none looks at thresholds, or the thread has no place in its memory. */
int mote_set_threshold(unsigned syscall, uint64_t ns);
/* What this thread has set last; MOTE_DEFAULT when nothing. */
uint64_t mote_threshold(unsigned syscall);
/* The same for all threads of the process that have none of their own. */
int mote_set_process_threshold(unsigned syscall, uint64_t ns);

/* The kernel's events are wanted from now on, for so long: rules on them ask for it by `$window`. 1; or 0: there are
 * none. */
int mote_open_kernel(uint64_t ns, int scope);
#define MOTE_THIS_THREAD 0
#define MOTE_WHOLE_SYSTEM 1
#define MOTE_THIS_PROCESS 2

/* This thread as the kernel sees it. */
struct mote_thread_state {
    uint64_t switches;          /* how often it was taken off a CPU */
    uint64_t preemptions;       /* of these, how often it was preempted */
    uint64_t offcpu_ns;         /* time off the CPU, in all and the last time */
    uint64_t last_offcpu_ns;
    uint64_t last_wait;         /* task state then: 0 preempted, 1 interruptible, 2 uninterruptible */
    int64_t last_wait_syscall;  /* system call in which it waited, -1 for none */
    uint64_t runqueue_ns;       /* time without a CPU though it could have run */
    uint64_t last_runqueue_ns;
    uint64_t faults;            /* page faults */
    uint64_t throttled;         /* how often, and for how long, its control group held it back */
    uint64_t throttled_ns;
    int64_t last_syscall;       /* the last system call that returned, and its duration */
    uint64_t last_syscall_ns;
    uint64_t syscalls;          /* system calls that returned */
    uint64_t cpu;               /* CPU on which it last began to run, and when (CLOCK_MONOTONIC) */
    uint64_t running_since_ns;
};
/* 1; or 0 (and zeros) while no session publishes it. */
int mote_thread_state(struct mote_thread_state *into);

/* Words that all processes of a session share with one another, with their filters ($shared.NAME[i]) and with the
 * kernel's programs; without a session, memory of this process. */
struct mote_shared_map {
    uint64_t *words;
    size_t count; /* at least as many as were asked for */
    int shared;   /* whether there is anyone to share them with */
};
/* Opens words by their name: the same name gives the same words. 0, or an error number. */
int mote_shared_map_open(struct mote_shared_map *map, const char *name, size_t words);

/* Words of which each thread has its own: $thread.NAME[i] in filters. */
struct mote_thread_map {
    uint32_t at, count;
    int shared;
};
int mote_thread_map_open(struct mote_thread_map *map, const char *name, size_t words);
/* A word of this thread; null when there is none. */
uint64_t *mote_thread_map_word(const struct mote_thread_map *map, size_t index);

/* A word, 0 when there is none of this index; writes one; adds to one, and gives what it was. */
MOTE_INLINE_ uint64_t mote_shared_map_get(const struct mote_shared_map *map, size_t index) {
    return index < map->count ? __atomic_load_n(map->words + index, __ATOMIC_RELAXED) : 0;
}
MOTE_INLINE_ void mote_shared_map_set(const struct mote_shared_map *map, size_t index, uint64_t value) {
    if (index < map->count) {
        __atomic_store_n(map->words + index, value, __ATOMIC_RELAXED);
    }
}
MOTE_INLINE_ uint64_t mote_shared_map_add(const struct mote_shared_map *map, size_t index, uint64_t delta) {
    return index < map->count ? __atomic_fetch_add(map->words + index, delta, __ATOMIC_RELAXED) : 0;
}

/* MOTE_THRESHOLD(SYS_write, 200000); sets a threshold for the rest of the block: that of a function. */
struct mote_threshold_guard {
    unsigned syscall;
    uint64_t before;
};
MOTE_INLINE_ struct mote_threshold_guard mote_threshold_begin_(unsigned syscall, uint64_t ns) {
    struct mote_threshold_guard guard;
    guard.syscall = syscall;
    guard.before = mote_threshold(syscall);
    mote_set_threshold(syscall, ns);
    return guard;
}
MOTE_INLINE_ void mote_threshold_end_(struct mote_threshold_guard *guard) {
    mote_set_threshold(guard->syscall, guard->before);
}
#define MOTE_THRESHOLD(syscall, ns) MOTE_THRESHOLD_(syscall, ns, __LINE__)
#define MOTE_THRESHOLD_(syscall, ns, line) MOTE_THRESHOLD_2_(syscall, ns, line)
#define MOTE_THRESHOLD_2_(syscall, ns, line)                                                              \
    __attribute__((cleanup(mote_threshold_end_), unused)) struct mote_threshold_guard mote_guard_##line = \
        mote_threshold_begin_(syscall, ns)

#ifdef __cplusplus
}
#endif

#endif
