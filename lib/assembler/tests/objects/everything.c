// Everything that the loader resolves: maps of both kinds, variables of all sections, calls in and between sections,
// and a helper by its name.
#define SEC(name) __attribute__((section(name), used))
#define NOINLINE __attribute__((noinline))
#define __uint(name, val) int(*name)[val]
#define __type(name, val) typeof(val) *name

typedef unsigned int u32;
typedef unsigned long long u64;

struct key {
    u32 words[3];
};
typedef struct {
    u64 count;
    const volatile u32 others[4];
} value;

struct {
    __uint(type, 1); // BPF_MAP_TYPE_HASH
    __uint(max_entries, 64);
    __type(key, struct key);
    __type(value, value);
} counts SEC(".maps");

struct {
    __uint(type, 27); // BPF_MAP_TYPE_RINGBUF
    __uint(max_entries, 4096);
} ring SEC(".maps");

struct bpf_map_def {
    u32 type, key_size, value_size, max_entries, map_flags;
};
struct bpf_map_def SEC("maps") legacy = {2, 4, 8, 16, 0};

static void *(*map_lookup_elem)(void *, const void *) = (void *)1;
static long (*ringbuf_output)(void *, const void *, u64, u64) = (void *)130;
extern int text_compare(const void *, const void *, const void *, u64) SEC(".ksyms");

const volatile u32 limit = 7;
u32 counter = 3;
u64 zeroes[4];
static u32 own = 9;

static NOINLINE int inner(u64 x)
{
    return x * 3 + limit;
}

NOINLINE int outer(u64 x)
{
    return inner(x) + 1;
}

SEC("filter") int first(u64 *context)
{
    struct key key = {{context[0], 1, 2}};
    value *found = map_lookup_elem(&counts, &key);
    counter++;
    zeroes[2] += own++;
    if (!found)
        return outer(key.words[0]);
    __sync_fetch_and_add(&found->count, 1);
    return 1;
}

SEC("filter") int second(u64 *context)
{
    u32 index = 0;
    u64 *found = map_lookup_elem(&legacy, &index);
    if (found)
        return *found;
    ringbuf_output(&ring, &index, sizeof index, 0);
    return inner(*context);
}

SEC("other") int third(u64 *context)
{
    return text_compare((void *)context[0], (void *)context[1], "hello", 5);
}

char _license[] SEC("license") = "GPL";
