/* Four threads call a function that calls itself, with values that belong together. */
#include <pthread.h>
#include <stdio.h>

__attribute__((noinline, noclone)) int deep(int thread, int depth, const char *name)
{
    char inner[32];
    volatile int result = thread * 1000 + depth;

    snprintf(inner, sizeof inner, "%d/%d", thread, depth + 1);
    if (depth < 49)
        deep(thread, depth + 1, inner);
    (void)name;
    return result;
}

static void *run(void *number)
{
    int thread = (int)(long)number;
    char name[32];

    snprintf(name, sizeof name, "%d/0", thread);
    for (int n = 0; n < 200; n++)
        deep(thread, 0, name);
    return NULL;
}

int main(void)
{
    pthread_t threads[4];

    for (long n = 0; n < 4; n++)
        pthread_create(&threads[n], NULL, run, (void *)n);
    for (int n = 0; n < 4; n++)
        pthread_join(threads[n], NULL);
    return 0;
}
