/* Does one thing for each line of its input, and answers with a line: `call` calls a function a thousand times,
   `threads` starts threads that run, sleep, and are interrupted by signals, `child` makes a child that calls functions
   for as long as this lives, `sleep` has the sleeping thread count anew how often its sleep has failed, and `slept`
   says how often that was. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define CALLED __attribute__((noinline, noclone))

static volatile unsigned sink;
static long failed;

CALLED void called(unsigned n) { sink += n; }
CALLED unsigned runs(unsigned n) { return n ? runs(n - 1) + sink : sink; }
CALLED void handles(void) { sink++; }

static void handler(int number)
{
    (void)number;
    handles();
}

static void *running(void *nothing)
{
    for (;;)
        runs(10);
    return nothing;
}

static void *sleeping(void *nothing)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    struct timespec time = {.tv_nsec = 300000000};
    for (;;)
        if (nanosleep(&time, NULL))
            __atomic_fetch_add(&failed, 1, __ATOMIC_RELAXED);
    return nothing;
}

static void start_threads(void)
{
    pthread_t thread;
    sigset_t alarms;
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    for (int n = 0; n < 2; n++)
        pthread_create(&thread, NULL, running, NULL);
    pthread_create(&thread, NULL, sleeping, NULL);
    /* The running ones take the signals. */
    pthread_sigmask(SIG_BLOCK, &alarms, NULL);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval often = {{0, 1000}, {0, 1000}};
    setitimer(ITIMER_REAL, &often, NULL);
}

int main(void)
{
    char line[64];
    setvbuf(stdout, NULL, _IOLBF, 0);
    while (fgets(line, sizeof line, stdin)) {
        if (strcmp(line, "threads\n") == 0)
            start_threads();
        if (strcmp(line, "call\n") == 0)
            for (unsigned n = 0; n < 1000; n++)
                called(n);
        if (strcmp(line, "sleep\n") == 0)
            __atomic_store_n(&failed, 0, __ATOMIC_RELAXED);
        if (strcmp(line, "slept\n") == 0) {
            printf("%ld\n", __atomic_load_n(&failed, __ATOMIC_RELAXED));
        } else if (strcmp(line, "child\n") == 0) {
            pid_t child = fork();
            if (child == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                for (;; usleep(1000))
                    runs(10);
            }
            printf("%d\n", child);
        } else {
            fputs(line, stdout);
        }
    }
    return 0;
}
