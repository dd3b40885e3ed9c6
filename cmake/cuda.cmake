# The CUDA toolkit's headers. Nothing of CUDA is linked and no nvcc is used: the driver, NVRTC, cuDNN, NCCL and cuFFT
# are loaded at run time. Without headers the cuda device is left out and says so when it is asked for.
#
#   GAN_CUDA=auto   with the headers where they are found (the default)
#   GAN_CUDA=on     not finding them stops the configuration
#   GAN_CUDA=off    without them
#
# Out: GAN_HAVE_CUDA, GAN_HAVE_CUDNN, GAN_HAVE_CUFFT, GAN_HAVE_NCCL; CUDA_, CUDNN_, CUFFT_, NCCL_INCLUDE_DIR; GAN_LIBRARY_DIRS, folders to look for the
# libraries in where the loader itself finds none.
set(GAN_CUDA auto CACHE STRING "The cuda device: auto, on or off")
set_property(CACHE GAN_CUDA PROPERTY STRINGS auto on off)

# Toolkit folders, then Python wheels of the same files, those of an active virtual environment first.
set(cuda_roots $ENV{CUDA_HOME} $ENV{CUDA_PATH} $ENV{CONDA_PREFIX} /usr/local/cuda /opt/cuda /usr/lib/cuda)
set(cuda_wheels "")
if(DEFINED ENV{VIRTUAL_ENV})
    file(GLOB cuda_wheels $ENV{VIRTUAL_ENV}/lib/python3*/site-packages/nvidia/*)
endif()
file(GLOB installed_wheels /usr/lib/python3*/dist-packages/nvidia/* /usr/local/lib/python3*/dist-packages/nvidia/*
     /usr/local/lib/python3*/site-packages/nvidia/*)
list(APPEND cuda_wheels ${installed_wheels})
if(NOT GAN_CUDA STREQUAL off)
    find_path(CUDA_INCLUDE_DIR cuda.h HINTS ${cuda_roots} ${cuda_wheels} PATH_SUFFIXES include)
    find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${cuda_roots} ${cuda_wheels} PATH_SUFFIXES include)
    find_path(CUFFT_INCLUDE_DIR cufft.h HINTS ${cuda_roots} ${cuda_wheels} PATH_SUFFIXES include)
    find_path(CUDNN_INCLUDE_DIR cudnn_graph.h HINTS ${cuda_roots} ${cuda_wheels} PATH_SUFFIXES include)
endif()
set(GAN_HAVE_CUDA OFF)
set(GAN_HAVE_CUDNN OFF)
set(GAN_HAVE_CUFFT OFF)
set(GAN_HAVE_NCCL OFF)
if(CUDA_INCLUDE_DIR)
    set(GAN_HAVE_CUDA ON)
    # 9.8 is the first version that describes a card by itself, which is how engines are chosen.
    if(CUDNN_INCLUDE_DIR)
        file(STRINGS ${CUDNN_INCLUDE_DIR}/cudnn_graph.h described REGEX "CUDNN_ATTR_DEVICEPROP_HANDLE")
        if(described)
            set(GAN_HAVE_CUDNN ON)
        else()
            message(STATUS "optional cuDNN headers: older than 9.8. Convolutions on cards run on kernels of our own.")
        endif()
    endif()
    if(CUFFT_INCLUDE_DIR)
        set(GAN_HAVE_CUFFT ON)
    else()
        message(STATUS "optional cuFFT header: not found. Fourier transforms on cards run on a kernel of our own.")
    endif()
    if(NCCL_INCLUDE_DIR)
        set(GAN_HAVE_NCCL ON)
    else()
        message(STATUS "optional NCCL header: not found. Ranks on cards add up by way of the host (--comm staged).")
    endif()
elseif(GAN_CUDA STREQUAL on)
    message(FATAL_ERROR "GAN_CUDA=on, and cuda.h is not found: set CUDA_HOME, or install the toolkit's headers")
elseif(NOT GAN_CUDA STREQUAL off)
    message(STATUS "optional CUDA headers: not found. The cuda device is left out.")
endif()

set(GAN_LIBRARY_DIRS "")
foreach(dir IN LISTS CUDA_INCLUDE_DIR CUDNN_INCLUDE_DIR CUFFT_INCLUDE_DIR NCCL_INCLUDE_DIR)
    foreach(lib lib64 lib)
        get_filename_component(found ${dir}/../${lib} ABSOLUTE)
        if(EXISTS ${found})
            list(APPEND GAN_LIBRARY_DIRS ${found})
        endif()
    endforeach()
endforeach()
list(REMOVE_DUPLICATES GAN_LIBRARY_DIRS)
string(REPLACE ";" ":" GAN_LIBRARY_DIRS "${GAN_LIBRARY_DIRS}")
