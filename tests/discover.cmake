# Run after a test program is built: asks it for its cases and writes the file CTest includes, one test a case. Threads that
# wait for work soon sleep, as in ganrun (runtime/main.c): tests share the cores.
execute_process(COMMAND ${PROGRAM} --list OUTPUT_VARIABLE names RESULT_VARIABLE code OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT code EQUAL 0 OR names STREQUAL "")
    message(FATAL_ERROR "${PROGRAM} --list: exit ${code}, \"${names}\"")
endif()
string(REPLACE "\n" ";" names "${names}")
set(text "")
foreach(name IN LISTS names)
    string(APPEND text "add_test([==[${NAME}.${name}]==] [==[${PROGRAM}]==] [==[${name}]==])\n"
        "set_tests_properties([==[${NAME}.${name}]==] PROPERTIES TIMEOUT 600 LABELS \"${LABELS}\" ENVIRONMENT GOMP_SPINCOUNT=2000)\n")
endforeach()
file(WRITE ${OUT} "${text}")
