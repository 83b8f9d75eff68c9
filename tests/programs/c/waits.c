/* Waits in known ways: the main thread sleeps eleven times for 50 ms; another one waits for its lock once, and for what
 * it writes ten times, each time as long. */
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#define OWN __attribute__((noinline, noclone))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int ends[2];
static volatile int sum;

OWN void nap(void) {
    struct timespec moment = {0, 50000000};
    nanosleep(&moment, 0);
    sum++;
}

OWN void wait_for_lock(void) {
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
    sum++;
}

OWN void wait_for_data(void) {
    char byte;
    sum += read(ends[0], &byte, 1);
}

OWN void *other(void *nothing) {
    wait_for_lock();
    for (int n = 0; n < 10; n++)
        wait_for_data();
    return nothing;
}

int main(void) {
    pthread_t thread;
    if (pipe(ends))
        return 1;
    pthread_mutex_lock(&lock);
    pthread_create(&thread, 0, other, 0);
    nap();
    pthread_mutex_unlock(&lock);
    for (int n = 0; n < 10; n++) {
        nap();
        sum += write(ends[1], "x", 1);
    }
    pthread_join(thread, 0);
    return 0;
}
