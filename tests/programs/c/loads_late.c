/* `loads_late LIBRARY FILE`: works in rounds, and loads the library when the file is there; from then on it has work,
   too. Prints a line for each round. */
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

static volatile int sink;

__attribute__((noinline, noclone)) int near_work(int x) {
    sink = x;
    return x * 3 + 1;
}

int main(int count, char **words) {
    int (*late_work)(int) = NULL;
    setvbuf(stdout, NULL, _IOLBF, 0);
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
