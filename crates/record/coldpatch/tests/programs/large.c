/* Data that takes more than 64 MiB in memory, and nothing in the file. */
char large_data[96 << 20];
