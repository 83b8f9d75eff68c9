/* Two threads beside the first one, and a child. */
#include "marked.h"
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int sums[2];

static void *work(void *at) {
    volatile int *sum = at;
    begin_marked();
    for (int i = 0; i < 50; i++)
        *sum += i % 3 ? i : -i;
    end_marked();
    return 0;
}

int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, work, (void *)&sums[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    int child = fork();
    if (child == 0) {
        work((void *)&sums[0]);
        _exit(3);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status) + 4;
}
