/* A child that becomes this program with an argument, by way of a script. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((noipa)) void reached(void) { __asm__ volatile(""); }

int main(int count, char **words) {
    char script[512];
    if (count > 1) {
        reached();
        return strcmp(words[1], "as") == 0 && strcmp(words[3], "you") == 0 && strcmp(words[4], "like") == 0 ? 6 : 7;
    }
    snprintf(script, sizeof script, "%s.sh", words[0]);
    FILE *file = fopen(script, "w");
    fprintf(file, "#!%s as\n", words[0]);
    fclose(file);
    chmod(script, 0700);
    if (fork() == 0) {
        execl("/nowhere", "nowhere", (char *)0);
        execl(script, script, "you", "like", (char *)0);
        _exit(9);
    }
    int status = 0;
    wait(&status);
    return WEXITSTATUS(status);
}
