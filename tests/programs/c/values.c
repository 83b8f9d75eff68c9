/* Functions that are called with known arguments, and return known results, which
 * tests/claims/values_of_calls_are_recorded.rs knows, too. */

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define KEPT __attribute__((noinline, noclone))

enum color { RED, GREEN = 5, BLUE = -1 };

struct request {
    int id;
    const char *path;
    char method[8];
    double weight;
};
struct mixed { int a; float b; double c; };
struct big { long a, b, c; };

static volatile int always = 1;

KEPT int numbers(int8_t a, uint16_t b, int c, unsigned long d, _Bool e, enum color f)
{
    return always ? a + b + c + (int)d + e + f : 0;
}

KEPT double floats(float a, double b, int c, double d) { return always ? a + b + c + d : 0; }

KEPT const char *texts(const char *a, const char *none, const char *bad, const char *empty)
{
    return always && !none && bad && !*empty ? a : "wrong";
}

KEPT long many(int a, int b, int c, int d, int e, int f, long g, const char *h)
{
    return always ? a + b + c + d + e + f + g + (long)strlen(h) : 0;
}

KEPT struct mixed structures(struct mixed m, struct big b, const struct request *r)
{
    struct mixed result = {m.a + r->id, m.b + 1, m.c + (double)b.c};
    return result;
}

/* The compiler does not know who looks at it. */
struct request request = {7, "/index.html", "GET", 0.5};

KEPT void nothing(void) { always = 1; }

/* A text of LONG characters is at the end of what can be read. */
#define LONG 1000

int main(void)
{
    static char text[LONG + 1];
    struct mixed mixed = {-3, 2.5f, 4.25}, back;
    struct big big = {1, 1L << 40, -9};

    memset(text, 'x', LONG);
    printf("%d\n", numbers(-5, 65535, -100000, 1UL << 63 | 3, 1, BLUE));
    printf("%g\n", floats(1.5f, -2.25, 42, 1e100));
    printf("%s\n", texts("first", NULL, (const char *)16, ""));
    printf("%zu\n", strlen(texts(text, NULL, (const char *)16, "")));
    printf("%ld\n", many(1, 2, 3, 4, 5, 6, -7, "on the stack"));
    back = structures(mixed, big, &request);
    printf("%d %g %g\n", back.a, (double)back.b, back.c);
    nothing();
    return 0;
}
