// table.cuh - text put before the kernels: rows of tables that indices name, and sums by row.
#ifndef GAN_TABLE_CUH
#define GAN_TABLE_CUH

// A label as a row of a table: clamped, so that an invalid one reads a wrong row, never outside the
// table. A table has at most as many rows as a float counts.
GAN_FN float gan_row(float x, int64_t rows) {
    return !(x >= 0) ? 0 : x >= (float)rows ? (float)(rows - 1) : truncf(x);
}
GAN_FN double gan_row(double x, int64_t rows) {
    return !(x >= 0) ? 0 : x >= (double)rows ? (double)(rows - 1) : trunc(x);
}

// Sums of terms by row, for up to ROWS rows of a table: in shared memory, for each of the WARPS of
// a unit. A warp adds the terms of a row in the order of steps, and of lanes within a step, so the
// sums are the same in every run.
template <typename T, int ROWS, int UNITS, int WARPS> struct gan_table {
    // Every lane of the warp calls it, before its first term.
    static GAN_MEMBER void clear(uint32_t rows) {
        for (uint32_t k = threadIdx.x % 32; k < rows; k += 32)
            of_warp(threadIdx.x / 32)[k] = 0;
        __syncwarp();
    }
    // Adds the terms of the lanes that hit a row: at once where their rows differ, those of one row
    // one after the other. Every lane calls it.
    static GAN_MEMBER void add(bool hit, uint32_t row, T term) {
        const uint32_t lane = threadIdx.x % 32,
                       same = __match_any_sync(0xFFFFFFFFu, hit ? row : ROWS + lane),
                       before = (uint32_t)__popc(same & ((1u << lane) - 1));
        for (uint32_t k = 0; __any_sync(0xFFFFFFFFu, hit && before >= k); k++) {
            if (hit && before == k)
                of_warp(threadIdx.x / 32)[row] += term;
            __syncwarp();
        }
    }
    // Between a unit's terms and its sums, and between those and the next unit. Every thread of the
    // block calls it.
    static GAN_MEMBER void sync() {
        if constexpr (WARPS > 1)
            __syncthreads();
        else
            __syncwarp();
    }
    static GAN_MEMBER T sum(uint32_t row) {
        const uint32_t first = threadIdx.x / 32 / WARPS * WARPS;
        T all = of_warp(first)[row];
        for (uint32_t i = 1; i < WARPS; i++)
            all += of_warp(first + i)[row];
        return all;
    }

  private:
    static GAN_MEMBER T *of_warp(uint32_t warp) {
        __shared__ T all[UNITS * WARPS][ROWS];
        return all[warp];
    }
};

#endif
