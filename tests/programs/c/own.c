/* What a program does with its own switches and probes, in C11 and in C++17. Without a recorder each line says what
 * must
 * come of it; prints how many events it emitted. */
#include "own.h"
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                                  \
    do {                                                                                                  \
        if (!(condition)) {                                                                               \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                               \
            exit(1);                                                                                      \
        }                                                                                                 \
    } while (0)

MOTE_SWITCH(unused);

static int emitted;

static void switches(void) {
    CHECK(!mote_switched(checks) && !mote_switched(more) && !other_file());
    CHECK(mote_switch_set(&checks, 1) == 0);
    CHECK(mote_switched(checks) && mote_switch_is_on(&checks) && !mote_switched(more) && other_file());
    const struct mote_flip both[] = {{&checks, 0}, {&more, 1}, {&unused, 1}};
    CHECK(mote_switch_flip(both, 3) == 0);
    CHECK(!mote_switched(checks) && mote_switched(more) && !other_file());
    CHECK(mote_switch_set(&more, 0) == 0);
    CHECK(!mote_switched(more));
}

struct seen {
    int calls, order;
    uint32_t len;
    char text[32];
    uint64_t sum;
};
static int order;

static void on_packet(uint32_t len, const char *proto, uint8_t last, void *data) {
    struct seen *seen = (struct seen *)data;
    seen->calls++;
    seen->order = ++order;
    seen->len = len;
    seen->sum += last;
    snprintf(seen->text, sizeof seen->text, "%s", proto ? proto : "none");
}

static void on_lists(const uint16_t *from, size_t n, const int64_t *pair, const void *bytes, size_t len, double real,
                     void *data) {
    struct seen *seen = (struct seen *)data;
    seen->calls++;
    for (size_t i = 0; i < n; i++) seen->sum += from[i];
    seen->sum += (uint64_t)pair[0] + (uint64_t)pair[1] + len + *(const unsigned char *)bytes;
    CHECK(real == 0.5);
}

static struct mote_connection *own;
static void on_idle(void *data) {
    struct seen *seen = (struct seen *)data;
    seen->calls++;
    CHECK(mote_wait_for_probes() == 0);
    mote_disconnect(own);
    own = NULL;
}

static int evaluated;
static uint32_t evaluate(uint32_t value) {
    evaluated++;
    return value;
}

static void packet(uint32_t len, const char *proto) {
    mote_emit(own, packet_in, len, proto);
    emitted++;
}

static void probes(void) {
    struct seen one = {0, 0, 0, "", 0}, two = one, three = one, four = one;
    packet(1, "off");
    struct mote_connection *first = mote_connect(own, packet_in, on_packet, &one);
    CHECK(first);
    packet(2, "tcp");
    CHECK(one.calls == 1 && one.len == 2 && !strcmp(one.text, "tcp") && one.sum == 1);
    struct mote_connection *second = mote_connect(own, packet_in, on_packet, &two);
    CHECK(second);
    other_packet(3, NULL);
    emitted++;
    CHECK(one.calls == 2 && two.calls == 1 && two.order == one.order + 1 && !strcmp(two.text, "none"));
    mote_disconnect(first);
    packet(4, "udp");
    CHECK(one.calls == 2 && two.calls == 2 && two.len == 4);
    mote_disconnect(second);
    mote_disconnect(NULL);
    CHECK(mote_wait_for_probes() == 1);
    packet(5, "off");
    CHECK(two.calls == 2);

    const uint16_t list[] = {1, 20, 300};
    const int64_t pair[2] = {4000, -1};
    struct mote_connection *lists = mote_connect(own, lists, on_lists, &three);
    CHECK(lists);
    mote_emit(own, lists, list, pair);
    mote_disconnect(lists);
    mote_emit(own, lists, list, pair);
    CHECK(three.calls == 1 && three.sum == 321 + 3999 + 3 + 'x');

    own = mote_connect(own, idle, on_idle, &four);
    CHECK(own);
    mote_emit(own, idle);
    mote_emit(own, idle);
    CHECK(four.calls == 1);
    emitted += 4;

    /* Each value is made once. */
    first = mote_connect(own, packet_in, on_packet, &one);
    mote_emit(own, packet_in, evaluate(6), "once");
    mote_disconnect(first);
    CHECK(evaluated == 1);
    emitted++;
}

static int over;
static void *run(void *data) {
    uint32_t *passes = (uint32_t *)data;
    while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
        mote_emit(own, beat, *passes);
        *passes += (uint32_t)(mote_switched(checks) ? 2 : 1);
    }
    return NULL;
}

/* `data` is poison when it was freed. */
static void on_beat(uint32_t number, void *data) {
    (void)number;
    CHECK(*(int *)data == 4711);
}

static void threads(int turns) {
    pthread_t threads[2];
    uint32_t passes[2] = {0, 0};
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, run, &passes[i]);
    for (int i = 0; i < turns; i++) {
        int *data = (int *)malloc(sizeof *data);
        *data = 4711;
        struct mote_connection *connection = mote_connect(own, beat, on_beat, data);
        CHECK(connection);
        CHECK(mote_switch_set(&checks, i % 2 == 0) == 0);
        mote_disconnect(connection);
        CHECK(mote_wait_for_probes() == 1);
        *data = -1;
        free(data);
    }
    __atomic_store_n(&over, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    CHECK(mote_switch_set(&checks, 0) == 0);
}

static void notes(void) {
    char text[600];
    memset(text, 'x', sizeof text);
    errno = 4711;
    mote_tracef("plain");
    mote_tracef("%d of %s: %5.1f", 7, "seven", 0.25);
    text[599] = 0;
    mote_tracef("%s", text);
    /* A character of three bytes at each place of the end. */
    for (int at = 507; at < 512; at++) {
        strcpy(text + at, "\xe2\x82\xac");
        mote_tracef("%s", text);
        text[at] = 'x';
    }
    CHECK(errno == 4711);
    emitted += 8;
}

int main(int argc, char **argv) {
    switches();
    probes();
    notes();
    threads(argc > 1 ? atoi(argv[1]) : 100);
    printf("emitted %d\n", emitted);
    return 0;
}
