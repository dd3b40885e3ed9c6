// cards.h - for tests: descriptions of GPUs, used without having one.
#ifndef GAN_CARDS_H
#define GAN_CARDS_H

#include "library.h"

// cuDNN's descriptions of GPUs, with values of their data sheets.
static const struct {
    const char *name, *properties;
} cards[] = {
    {"H100",
     "{\"deviceVer\":900,\"driverVer\":13000,\"totalGlobalMem\":85520809984,\"pciDeviceId\":0,"
     "\"cudaDeviceId\":0,\"isTccDriver\":0,\"maxGridSize\":[2147483647,65535,65535],"
     "\"maxBlockSize\":[1024,1024,64],\"regsPerBlock\":65536,\"multiProcessorCount\":132,"
     "\"warpSize\":32,\"maxSharedMemoryPerBlock\":49152,\"maxSharedMemoryPerBlockOptin\":232448,"
     "\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":32,"
     "\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":2048,\"supportCoopLaunch\":1,"
     "\"smClockRateKHz\":1980000,\"memClockRateKHz\":2619000,\"l2CacheSize\":52428800,"
     "\"deviceName\":\"NVIDIA H100 80GB HBM3\"}"},
    {"A100",
     "{\"deviceVer\":800,\"driverVer\":13000,\"totalGlobalMem\":42505273344,\"pciDeviceId\":0,"
     "\"cudaDeviceId\":0,\"isTccDriver\":0,\"maxGridSize\":[2147483647,65535,65535],"
     "\"maxBlockSize\":[1024,1024,64],\"regsPerBlock\":65536,\"multiProcessorCount\":108,"
     "\"warpSize\":32,\"maxSharedMemoryPerBlock\":49152,\"maxSharedMemoryPerBlockOptin\":166912,"
     "\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":32,"
     "\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":2048,\"supportCoopLaunch\":1,"
     "\"smClockRateKHz\":1410000,\"memClockRateKHz\":1215000,\"l2CacheSize\":41943040,"
     "\"deviceName\":\"NVIDIA A100-SXM4-40GB\"}"},
};

// cuDNN loads and unloads NVRTC repeatedly, and each time leaks memory of its C++ runtime that leak
// checkers cannot attribute. Kept loaded, it leaks once.
static inline void keep_nvrtc(void) {
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", NULL};
    (void)library_open(names);
}

#endif
