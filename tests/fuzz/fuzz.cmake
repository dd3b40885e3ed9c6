# gan_fuzz(NAME LIBS libs... CORPUS folders...): fuzz/NAME.c as a plain test over its corpus, and with GAN_FUZZ as a
# libFuzzer program, NAME_libfuzzer, that goes on from the same files.
function(gan_fuzz name)
    cmake_parse_arguments(F "" "" "LIBS;CORPUS" ${ARGN})
    add_executable(${name} fuzz/${name}.c fuzz/replay.c)
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    target_link_libraries(${name} PRIVATE ${F_LIBS} gan_options)
    add_test(NAME ${name} COMMAND ${name} --rounds 200 ${F_CORPUS})
    if(GAN_FUZZ)
        add_executable(${name}_libfuzzer fuzz/${name}.c)
        target_compile_options(${name}_libfuzzer PRIVATE -fsanitize=fuzzer)
        target_link_options(${name}_libfuzzer PRIVATE -fsanitize=fuzzer)
        target_link_libraries(${name}_libfuzzer PRIVATE ${F_LIBS} gan_options)
    endif()
endfunction()

set(syntax_corpus ${CMAKE_SOURCE_DIR}/models ${CMAKE_SOURCE_DIR}/stdlib ${CMAKE_CURRENT_SOURCE_DIR}/golden/syntax)
gan_fuzz(parse_fuzz LIBS gan_front CORPUS ${syntax_corpus})
gan_fuzz(yaml_fuzz LIBS gan_front CORPUS ${syntax_corpus})
