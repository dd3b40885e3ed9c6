# Every library the project uses, found in one place. Required ones stop the configuration; an optional one that is
# missing is reported with what its absence costs, and its HAVE_ macro stays undefined. The last line lists what there is.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
if(NOT GAN_SANITIZE STREQUAL "thread")  # which does not see libgomp's barriers: every parallel loop would be a race
    find_package(OpenMP COMPONENTS C)
    if(NOT OpenMP_C_FOUND)
        message(STATUS "optional OpenMP: not found. Kernels run on one core.")
    endif()
endif()

function(gan_need name module)
    pkg_check_modules(${name} REQUIRED QUIET IMPORTED_TARGET ${module})
    set_property(GLOBAL PROPERTY gan_needs_${name} ON)
endfunction()
set(GAN_WITHOUT "" CACHE STRING "Optional libraries to leave out though they are there, as named below: HDF5;JPEG;...")
function(gan_want name module cost)
    if(name IN_LIST GAN_WITHOUT)
        return()
    endif()
    pkg_check_modules(${name} QUIET IMPORTED_TARGET ${module})
    if(NOT ${name}_FOUND)
        message(STATUS "optional ${module}: not found. ${cost}")
    endif()
endfunction()

# The target is compiled with NAME's headers and loads the library when it is first called (library.h): NAME_FILES are the
# names to look for. A library that its own CMake package found is named behind.
function(gan_late target name)
    if(ARGN)
        set(library ${ARGN})
        get_target_property(file ${library} LOCATION)
    else()
        set(library PkgConfig::${name})
        get_target_property(files ${library} INTERFACE_LINK_LIBRARIES)
        list(GET files 0 file)
    endif()
    get_filename_component(file "${file}" REALPATH)
    execute_process(COMMAND ${CMAKE_OBJDUMP} -p ${file} OUTPUT_VARIABLE described)
    if(NOT described MATCHES "SONAME +([^\n ]+)")
        message(FATAL_ERROR "${file}: no shared library with a name")
    endif()
    get_property(needed GLOBAL PROPERTY gan_needs_${name} SET)
    set_property(GLOBAL APPEND PROPERTY gan_late_files_${needed} ${file}) # for package.cmake
    target_compile_definitions(${target} PRIVATE "${name}_FILES=\"${CMAKE_MATCH_1}\",\"${file}\"")
    target_include_directories(${target} SYSTEM PUBLIC
        $<TARGET_PROPERTY:${library},INTERFACE_INCLUDE_DIRECTORIES>)
endfunction()

# gan_either(TARGET NAME FILE MORE...): FILE.c and MORE, which load NAME's library, where there is one; else
# FILE_none.c: one of two answers, so that no source file asks which libraries there are.
function(gan_either target name file)
    if(${name}_FOUND)
        target_sources(${target} PRIVATE ${file}.c ${ARGN})
        gan_late(${target} ${name})
    else()
        target_sources(${target} PRIVATE ${file}_none.c)
    endif()
endfunction()

gan_need(YAML yaml-0.1)
gan_need(PNG libpng)
gan_need(ARCHIVE libarchive)
gan_need(CJSON libcjson)
gan_need(XXHASH libxxhash)
gan_want(JPEG libjpeg "JPEG images cannot be read.")
gan_want(WEBP libwebp "WebP images cannot be read.")
gan_want(HDF5 hdf5 "HDF5 files cannot be read.")
gan_want(SNDFILE sndfile "WAV sounds cannot be read.")
gan_want(OPENBLAS openblas "`ganrun eval --features` has no FID.")
gan_want(FREETYPE freetype2 "examples/emoji cannot extract its images.")
gan_want(MPI ompi-c "Runs use one rank: mpirun cannot start more.")
find_program(MPIRUN mpirun)
gan_want(CMOCKA cmocka "Unit tests are not built.")

# oneDNN ships a CMake package under two names: dnnl (2.x, 3.x).
find_package(dnnl CONFIG QUIET)
if(NOT dnnl_FOUND)
    message(STATUS "optional oneDNN: not found. Convolution and matmul run on our own plain loops, many times slower.")
endif()
set_property(GLOBAL PROPERTY gan_needs_DNNL ON) # where it was there when the programs were built

include(cuda)

set(found "")
foreach(name_flag OpenMP:OpenMP_C_FOUND oneDNN:dnnl_FOUND MPI:MPI_FOUND OpenBLAS:OPENBLAS_FOUND HDF5:HDF5_FOUND JPEG:JPEG_FOUND WebP:WEBP_FOUND
        sndfile:SNDFILE_FOUND FreeType:FREETYPE_FOUND cmocka:CMOCKA_FOUND CUDA:GAN_HAVE_CUDA cuDNN:GAN_HAVE_CUDNN cuFFT:GAN_HAVE_CUFFT NCCL:GAN_HAVE_NCCL)
    string(REPLACE ":" ";" name_flag ${name_flag})
    list(GET name_flag 0 name)
    list(GET name_flag 1 flag)
    if(${flag})
        list(APPEND found ${name})
    endif()
endforeach()
list(JOIN found ", " found)
message(STATUS "built with: ${found}")
