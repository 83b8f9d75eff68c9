/* Functions whose costs are known: `fault` touches 8 new pages in each call, `nap` sleeps once, `spin` takes some
 * microseconds. `often` is called a hundred times for each call of these, by `round_of`; `rarely` three times in all.
 * Of several threads, the main one only waits for the others. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define OWN __attribute__((noinline, noipa))
enum { PAGE = 4096, PAGES = 8, OFTEN = 100 };

static volatile uint64_t sum;

OWN void often(uint64_t n) {
    sum += n * 3;
}

OWN void fault(void) {
    char *memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int page = 0; page < PAGES; page++)
        memory[page * PAGE] = 1;
    munmap(memory, PAGES * PAGE);
}

OWN void nap(void) {
    struct timespec moment = {0, 100000};
    nanosleep(&moment, NULL);
}

OWN void spin(void) {
    for (int n = 0; n < 2000; n++)
        sum += n;
}

OWN void rarely(void) {
    fault();
}

OWN void round_of(uint64_t n) {
    for (uint64_t k = 0; k < OFTEN; k++)
        often(n + k);
    fault();
    spin();
}

OWN void *work(void *rounds) {
    uint64_t all = *(uint64_t *)rounds;
    for (uint64_t n = 0; n < all; n++) {
        round_of(n);
        if (n % (all / 3) == 0)
            rarely();
        if (n % (all / 30) == 0)
            nap();
    }
    return NULL;
}

int main(int count, char **words) {
    uint64_t rounds = count > 1 ? strtoull(words[1], NULL, 10) : 3000;
    int threads = count > 2 ? atoi(words[2]) : 1;
    if (threads == 1)
        work(&rounds);
    pthread_t others[16];
    for (int n = 0; threads > 1 && n < threads && n < 16; n++)
        pthread_create(&others[n], NULL, work, &rounds);
    for (int n = 0; threads > 1 && n < threads && n < 16; n++)
        pthread_join(others[n], NULL);
    printf("%d\n", sum != 0);
    return 0;
}
