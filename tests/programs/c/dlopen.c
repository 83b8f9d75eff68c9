/* Loads each shared library of its arguments twice, lets it emit events, and emits some of its own (unless compiled
 * WITHOUT_EVENTS). Prints how many events were emitted. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#ifndef WITHOUT_EVENTS
#include <mote.h>
#endif

static int run(const char *path, int times) {
    void *library = dlopen(path, RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return -1000;
    }
    int (*plugin_run)(int) = (int (*)(int))(uintptr_t)dlsym(library, "plugin_run");
    int emitted = plugin_run ? plugin_run(times) : -1000;
    dlclose(library);
    return emitted;
}

int main(int argc, char **argv) {
    int emitted = 0;
#ifndef WITHOUT_EVENTS
    mote_event(dlopen, begin, MOTE_INFO, "before anything is loaded");
    emitted++;
#endif
    for (int i = 1; i < argc; i++) {
        emitted += run(argv[i], 3);
        emitted += run(argv[i], 2);
    }
#ifndef WITHOUT_EVENTS
    mote_event(dlopen, end, MOTE_INFO, "everything is unloaded", mote_i32(so_far, emitted));
    emitted++;
#endif
    printf("emitted %d\n", emitted);
    return emitted < 0;
}
