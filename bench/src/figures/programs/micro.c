// The micro-benchmarks of Sharma 2017, section 5.5.2 (table 5.1): programs that differ in their branches.
// Usage: micro NAME COUNT.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static volatile uint64_t sink;
static uint64_t state = 88172645463325252u;

static uint64_t next(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

// TailFact: each step of a factorial is an indirect tail call.
typedef uint64_t step(uint64_t n, uint64_t product);
static step *volatile again;
static uint64_t multiply(uint64_t n, uint64_t product) {
    if (n < 2)
        return product;
    return again(n - 1, product * n);
}
static void tail_fact(long count) {
    again = multiply;
    for (long i = 0; i < count; i++)
        sink += multiply(20, 1);
}

// Fib: recursion, conditional branches and returns.
static uint64_t __attribute__((noinline)) fib(uint64_t n) {
    return n < 2 ? n : fib(n - 1) + fib(n - 2);
}
static void fib_all(long count) {
    for (long i = 0; i < count; i++)
        sink += fib(15);
}

// ParseInt: numbers to hexadecimal text and back.
static void parse_int(long count) {
    char text[20];
    for (long i = 0; i < count; i++) {
        uint32_t number = (uint32_t)next();
        snprintf(text, sizeof text, "%x", number);
        sink += strtoul(text, NULL, 16) == number;
    }
}

// PiSum: a series, summed up again and again.
static void __attribute__((noinline)) pi_sum(long count) {
    for (long i = 0; i < count; i++) {
        double sum = 0;
        for (int k = 1; k <= 10000; k++)
            sum += 1.0 / ((double)k * k);
        sink += (uint64_t)sum;
    }
}

// Sort: quicksort of random numbers.
static void quicksort(double *v, long low, long high) {
    long i = low, j = high;
    while (i < high) {
        double pivot = v[(low + high) / 2];
        while (i <= j) {
            while (v[i] < pivot)
                i++;
            while (v[j] > pivot)
                j--;
            if (i <= j) {
                double t = v[i];
                v[i++] = v[j];
                v[j--] = t;
            }
        }
        if (low < j)
            quicksort(v, low, j);
        low = i;
        j = high;
    }
}
static void sort_all(long count) {
    static double v[5000];
    for (long i = 0; i < count; i++) {
        for (int k = 0; k < 5000; k++)
            v[k] = (double)next();
        quicksort(v, 0, 4999);
        sink += (uint64_t)v[0];
    }
}

// RandMatMul: products of random matrices.
enum { SIZE = 64 };
static double a[SIZE][SIZE], b[SIZE][SIZE], c[SIZE][SIZE];
static void fill(double m[SIZE][SIZE]) {
    for (int i = 0; i < SIZE; i++)
        for (int j = 0; j < SIZE; j++)
            m[i][j] = (double)(next() >> 40);
}
static void __attribute__((noinline, optimize("O3"))) multiply_matrices(void) {
    for (int i = 0; i < SIZE; i++) {
        for (int j = 0; j < SIZE; j++)
            c[i][j] = 0;
        for (int k = 0; k < SIZE; k++)
            for (int j = 0; j < SIZE; j++)
                c[i][j] += a[i][k] * b[k][j];
    }
}
static void rand_mat_mul(long count) {
    fill(a);
    fill(b);
    for (long i = 0; i < count; i++) {
        multiply_matrices();
        sink += (uint64_t)c[3][5];
    }
}

// Canny: the steps of an edge detector on a small picture.
enum { WIDTH = 96 };
static int picture[WIDTH][WIDTH], smooth[WIDTH][WIDTH], edge[WIDTH][WIDTH], way[WIDTH][WIDTH];
static void __attribute__((noinline)) canny_once(void) {
    static const int kernel[3][3] = {{1, 2, 1}, {2, 4, 2}, {1, 2, 1}};
    for (int y = 1; y < WIDTH - 1; y++)
        for (int x = 1; x < WIDTH - 1; x++) {
            int sum = 0;
            for (int j = -1; j <= 1; j++)
                for (int i = -1; i <= 1; i++)
                    sum += kernel[j + 1][i + 1] * picture[y + j][x + i];
            smooth[y][x] = sum / 16;
        }
    for (int y = 2; y < WIDTH - 2; y++)
        for (int x = 2; x < WIDTH - 2; x++) {
            int dx = smooth[y][x + 1] - smooth[y][x - 1], dy = smooth[y + 1][x] - smooth[y - 1][x];
            edge[y][x] = abs(dx) + abs(dy);
            way[y][x] = abs(dx) > 2 * abs(dy) ? 0 : abs(dy) > 2 * abs(dx) ? 1 : dx * dy > 0 ? 2 : 3;
        }
    for (int y = 3; y < WIDTH - 3; y++)
        for (int x = 3; x < WIDTH - 3; x++) {
            static const int step[4][2] = {{0, 1}, {1, 0}, {1, 1}, {1, -1}};
            const int *s = step[way[y][x]];
            int e = edge[y][x];
            if (e > 40 && e >= edge[y + s[0]][x + s[1]] && e >= edge[y - s[0]][x - s[1]])
                sink++;
        }
}
static void canny(long count) {
    for (int y = 0; y < WIDTH; y++)
        for (int x = 0; x < WIDTH; x++)
            picture[y][x] = (int)(next() & 63) + (x > y ? 128 : 0);
    for (long i = 0; i < count; i++)
        canny_once();
}

// Epsilon: an empty loop. Omega: the same with a conditional branch in it.
static void __attribute__((noinline, optimize("O0"))) epsilon(long count) {
    for (long i = 0; i < count; i++)
        ;
}
static void __attribute__((noinline, optimize("O0"))) omega(long count) {
    int odd = 0;
    for (long i = 0; i < count; i++)
        if (i & 1)
            odd++;
    sink += odd;
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(long);
    } all[] = {
        {"TailFact", tail_fact}, {"Fib", fib_all},           {"ParseInt", parse_int}, {"PiSum", pi_sum},
        {"Sort", sort_all},      {"RandMatMul", rand_mat_mul}, {"Canny", canny},        {"Omega", omega},
        {"Epsilon", epsilon},
    };
    for (size_t i = 0; argc > 2 && i < sizeof all / sizeof *all; i++)
        if (!strcmp(argv[1], all[i].name)) {
            all[i].run(atol(argv[2]));
            return 0;
        }
    return 2;
}
