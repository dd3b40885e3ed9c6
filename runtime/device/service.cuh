// service.cuh - kernels that the runtime launches for itself (cuda_service.c), behind the prelude
// of the CUDA dialect; cuda_compile.c compiles them with a program's kernels. Beside kernels, a
// copy or a memset costs several microseconds for its way through another engine of the card; these
// cost one.

// What is uploaded before each run of a block (CudaHead): 40 bytes of counters, 12 of its first
// breadcrumb, 4 of padding.
struct gan_head {
    uint32_t at[14];
};

// One warp. The breadcrumb goes to the host's memory too, which is pinned.
extern "C" __global__ void gan_begin(const __grid_constant__ gan_head head, uint32_t *to,
                                     uint32_t *mark) {
    const uint32_t i = threadIdx.x;
    if (i < 14)
        to[i] = head.at[i];
    if (i >= 10 && i < 13)
        mark[i - 10] = head.at[i];
}

// Stands for a memset in a captured graph.
extern "C" __global__ void __launch_bounds__(256)
    gan_fill(uint32_t *to, uint64_t n, uint32_t value) {
    for (uint64_t i = (uint64_t)blockIdx.x * 256 + threadIdx.x; i < n;
         i += (uint64_t)gridDim.x * 256)
        to[i] = value;
}
