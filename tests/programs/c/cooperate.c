/* Thresholds, the state of the thread, shared words. Prints what it finds. In C11 and C++17. */
#include <mote.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What a thread has set while a function runs. */
static uint64_t within(void) {
    MOTE_THRESHOLD(SYS_write, 200000);
    {
        MOTE_THRESHOLD(SYS_write, MOTE_NEVER);
        if (mote_threshold(SYS_write) != MOTE_NEVER && mote_set_threshold(SYS_write, MOTE_NEVER)) {
            return 1;
        }
    }
    return mote_threshold(SYS_write);
}

int main(void) {
    int told = mote_set_threshold(SYS_read, 1000);
    int process = mote_set_process_threshold(SYS_read, 64000000);
    uint64_t inside = within(), outside = mote_threshold(SYS_write);
    struct mote_thread_state state;
    int published = mote_thread_state(&state);
    struct mote_shared_map map;
    int opened = mote_shared_map_open(&map, "from_c", 2);
    mote_shared_map_set(&map, 0, 40);
    uint64_t before = mote_shared_map_add(&map, 0, 2);
    struct mote_shared_map again;
    int reopened = mote_shared_map_open(&again, "from_c", 2);
    struct mote_thread_map mine;
    int each = mote_thread_map_open(&mine, "depth", 3);
    uint64_t *word = mote_thread_map_word(&mine, 2);
    if (word) {
        ++*word;
    }
    struct mote_shared_map none;
    printf("told %d\nprocess %d\ninside %llu\noutside_default %d\nread %llu\n", told, process,
           (unsigned long long)inside, outside == MOTE_DEFAULT, (unsigned long long)mote_threshold(SYS_read));
    printf("published %d\nshared %d\nbefore %llu\nword %llu\nbehind %llu\n", published, map.shared,
           (unsigned long long)before, (unsigned long long)mote_shared_map_get(&again, 0),
           (unsigned long long)mote_shared_map_get(&map, map.count));
    printf("opened %d\nthread_word %d\nno_word %d\nrefused %d\n", opened == 0 && reopened == 0 && each == 0,
           word != NULL && *mote_thread_map_word(&mine, 2) == 1, mote_thread_map_word(&mine, mine.count) == NULL,
           mote_shared_map_open(&none, "", 1) != 0 && mote_shared_map_open(&none, "from_c", 1 << 20) != 0);
    printf("window %d\n", mote_open_kernel(1000, MOTE_THIS_THREAD));
    return 0;
}
