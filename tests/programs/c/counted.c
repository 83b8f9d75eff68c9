/* Calls functions from eight threads, from handlers of signals that interrupt them, in children of fork, in one that is
   killed, and before it becomes another program; says on standard error how often each was called. It waits for a line
   of its input first. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define CALLED __attribute__((noinline, noclone))
#define THREADS 8

static volatile unsigned sink;
static long turns = 200000;
static long handled;

CALLED void busy(unsigned n) { sink += n; }
CALLED unsigned deep(unsigned n) { return n ? deep(n - 1) + sink : sink; }
CALLED void in_handler(void) { sink++; }
CALLED void in_child(void) { sink++; }
CALLED void before_kill(void) { sink++; }
CALLED void before_exec(void) { sink++; }
CALLED void never(void) { sink++; }
CALLED void stays(int for_good)
{
    while (for_good)
        pause();
}

static void handler(int number)
{
    (void)number;
    in_handler();
    __atomic_fetch_add(&handled, 1, __ATOMIC_RELAXED);
}

static void *thread(void *nothing)
{
    for (long n = 0; n < turns; n++) {
        busy((unsigned)n);
        if (n % 1000 == 0)
            deep(9);
    }
    return nothing;
}

static void *stay(void *nothing)
{
    sigset_t all;
    sigfillset(&all);
    sigdelset(&all, SIGTRAP);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    stays(1);
    return nothing;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS], stayer;
    struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART };
    struct itimerval timer = { { 0, 100 }, { 0, 100 } }, none = { { 0, 0 }, { 0, 0 } };

    if (argc > 1)
        turns = atol(argv[1]);
    if (getchar() == EOF)
        return 1;
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
    for (int n = 0; n < THREADS; n++)
        pthread_create(&threads[n], NULL, thread, NULL);
    for (int n = 0; n < THREADS; n++)
        pthread_join(threads[n], NULL);
    setitimer(ITIMER_REAL, &none, NULL);
    for (int n = 0; n < 4; n++) {
        pid_t child = fork();
        if (!child) {
            for (int m = 0; m < 1000; m++)
                in_child();
            if (n == 3) {
                for (int m = 0; m < 777; m++)
                    before_kill();
                kill(getpid(), SIGKILL);
            }
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
    stays(0);
    for (int n = 0; n < 3; n++)
        pthread_create(&stayer, NULL, stay, NULL);
    usleep(50000);
    for (int n = 0; n < 55; n++)
        before_exec();
    fprintf(stderr, "busy %ld\ndeep %ld\nin_handler %ld\nin_child 4000\nbefore_kill 777\nbefore_exec 55\nstays 4\n",
            THREADS * turns, THREADS * ((turns + 999) / 1000) * 10, handled);
    fflush(stderr);
    execl("/bin/true", "true", NULL);
    return 2;
}
