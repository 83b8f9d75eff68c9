/* `loads_late LIBRARY FILE [threads]`: works in rounds, and loads the library when the file is there; from then on it
   has work, too. Prints a line for each round. With another word there are threads that wait, and that come and go. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static volatile int sink;

__attribute__((noinline, noclone)) int near_work(int x) {
    sink = x;
    return x * 3 + 1;
}

static void *wait_for_ever(void *unused) {
    for (;;) pause();
    return unused;
}

static void *brief(void *unused) {
    near_work(1);
    return unused;
}

static void *come_and_go(void *unused) {
    for (;;) {
        pthread_t thread;
        pthread_create(&thread, NULL, brief, NULL);
        pthread_join(thread, NULL);
        usleep(100);
    }
    return unused;
}

int main(int count, char **words) {
    int (*late_work)(int) = NULL;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (count > 3) {
        pthread_t threads[2];
        pthread_create(&threads[0], NULL, wait_for_ever, NULL);
        pthread_create(&threads[1], NULL, come_and_go, NULL);
    }
    for (int round = 0; count > 2; round++) {
        for (int n = 0; n < 10; n++) {
            near_work(n);
            if (late_work != NULL) {
                late_work(n);
            }
        }
        if (late_work == NULL && access(words[2], F_OK) == 0) {
            void *library = dlopen(words[1], RTLD_NOW);
            late_work = (int (*)(int))dlsym(library, "late_work");
        }
        usleep(1000);
        printf("%d\n", round);
    }
}
