# GAN_PORTABLE=ON: the programs and the libraries they load, in one folder that finds itself by RPATH, and that folder as
# one archive. For machines with a card and little else: neither compilers nor packages are asked for. The target's C
# library must have what they call of this machine's: built on Debian 12 they run from glibc 2.35 (Ubuntu 22.04) on.
#
#   cmake --preset portable && cmake --build --preset portable     ->  build-portable/gan.tar.gz
if(NOT GAN_PORTABLE)
    return()
endif()
set(portable_programs ganc ganrun)
if(TARGET device_test)
    # The conformance suite of devices; a step launch by launch; random models.
    list(APPEND portable_programs device_test launches random_test)
endif()
if(TARGET nccl_alone)
    list(APPEND portable_programs nccl_alone)               # NCCL on one card
endif()
get_target_property(archive PkgConfig::ARCHIVE INTERFACE_LINK_LIBRARIES)
list(GET archive 0 archive)

# libarchive reads and writes xar by libxml2, which asks for ICU and its 30 MB of tables. Where its objects are there as an
# archive, a library is made of those that we call, which do without.
string(REGEX REPLACE "\\.so$" ".a" objects "${archive}")
if(EXISTS "${objects}")
    file(STRINGS ${CMAKE_SOURCE_DIR}/runtime/base/archive_late.def rows REGEX "^(GIVES|DOES)\\(")
    string(REGEX MATCHALL " archive_[a-z0-9_]+" calls "${rows}")
    list(TRANSFORM calls REPLACE "^ " "-Wl,-u,")
    execute_process(COMMAND ${CMAKE_OBJDUMP} -p ${archive} OUTPUT_VARIABLE needs)
    string(REGEX MATCHALL "lib(z|bz2|lzma|zstd|lz4|nettle|acl)\\.so[.0-9]*" needs "${needs}")
    list(TRANSFORM needs PREPEND "-l:")
    get_filename_component(whole "${archive}" REALPATH)
    string(REGEX MATCH "\\.so\\.([0-9]+)" found "${whole}")
    add_library(portable_archive SHARED ${CMAKE_CURRENT_LIST_DIR}/archive_random.c)
    set_target_properties(portable_archive PROPERTIES OUTPUT_NAME archive SOVERSION ${CMAKE_MATCH_1})
    # The table of all writers names xar's, which nobody asks for.
    target_link_options(portable_archive PRIVATE ${calls} -Wl,-Bsymbolic,-z,defs,--defsym,archive_write_set_format_xar=0)
    target_link_libraries(portable_archive PRIVATE ${objects} -Wl,--as-needed ${needs})
    install(TARGETS portable_archive RUNTIME_DEPENDENCY_SET portable_libraries LIBRARY DESTINATION lib NAMELINK_SKIP)
    set(archive $<TARGET_FILE:portable_archive>)
    set(ours "^libarchive\\.so")
endif()
if(dnnl_FOUND)
    get_target_property(dnnl DNNL::dnnl LOCATION)
    string(APPEND archive ",${dnnl}")
endif()
# An RPATH, unlike a RUNPATH, also holds for what the libraries themselves load.
foreach(program IN LISTS portable_programs)
    set_target_properties(${program} PROPERTIES INSTALL_RPATH "$ORIGIN/lib")
    target_link_options(${program} PRIVATE -Wl,--disable-new-dtags)
    # What is loaded when first called (deps.cmake, gan_late) is to be found among the libraries. One word, for of several
    # CMake would move the library out.
    target_link_libraries(${program} PRIVATE "-Wl,--push-state,--no-as-needed,${archive},--pop-state")
    if(TARGET portable_archive)
        add_dependencies(${program} portable_archive)
    endif()
endforeach()
install(TARGETS ${portable_programs} RUNTIME_DEPENDENCY_SET portable_libraries RUNTIME DESTINATION .)
install(RUNTIME_DEPENDENCY_SET portable_libraries PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|m|dl|rt|pthread|resolv)\\.so" ${ours}
        LIBRARY DESTINATION lib)
# NVRTC, cuDNN and NCCL are C++, and a machine with little else may lack its library. In a folder of its own (library.c): found
# first by the RPATH, this machine's would also be taken where the target has one and an older C library (Ubuntu 22.04).
foreach(library libstdc++.so.6 libgcc_s.so.1)
    execute_process(COMMAND ${CMAKE_C_COMPILER} -print-file-name=${library} OUTPUT_VARIABLE file OUTPUT_STRIP_TRAILING_WHITESPACE)
    get_filename_component(file "${file}" REALPATH)
    install(FILES ${file} DESTINATION lib/spare RENAME ${library})
endforeach()
install(DIRECTORY models tests/reference DESTINATION .)
install(PROGRAMS tests/bench/gpu.sh DESTINATION bench) # what there is to ask of a card
install(DIRECTORY tests/bench/pytorch DESTINATION bench PATTERN __pycache__ EXCLUDE)

if(TARGET gan_mpi) # beside the programs; Open MPI, of which it needs libmpi.so.40 (4.x, 5.x), is the target's
    install(TARGETS gan_mpi LIBRARY DESTINATION .)
    list(APPEND portable_programs gan_mpi)
endif()

set(portable ${CMAKE_BINARY_DIR}/gan)
add_custom_target(portable ALL VERBATIM DEPENDS ${portable_programs}
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${portable}
    COMMAND ${CMAKE_COMMAND} --install ${CMAKE_BINARY_DIR} --strip --prefix ${portable}
    COMMAND ${CMAKE_COMMAND} -E chdir ${CMAKE_BINARY_DIR} ${CMAKE_COMMAND} -E tar czf gan.tar.gz gan
    COMMENT "The programs with their libraries: ${CMAKE_BINARY_DIR}/gan.tar.gz")
