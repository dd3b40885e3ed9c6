# Every reference case, recomputed by `ganrun verify`: f64 on the reference device and f32 on the processor. The list is
# the folder; a case names its model. What takes longer than the quick tier allows has the label long.
set(quick_f64 aae3d acgan began biggan features d2gan_ring d3gan dcgan hifigan infogan munit pix2pix progan r3gan sagan stargan stylegan2 wavegan)   # models of less than 25 s
set(quick_f32 aae3d acgan began biggan features cosmogan cyclegan d2gan_ring d3gan dcgan infogan munit pix2pix progan r3gan sagan sngan stargan stylegan2
    wavegan wgan_gp)    # less than 10 s

function(verify_case case model device precision)
    set(name verify.${precision}.${case})
    add_test(NAME ${name} COMMAND ganrun verify ${model_file}
        ${CMAKE_CURRENT_SOURCE_DIR}/reference/${case}.json --device ${device} --precision ${precision})
    set_tests_properties(${name} PROPERTIES TIMEOUT 900
        ENVIRONMENT XDG_CACHE_HOME=${CMAKE_BINARY_DIR}/tests/cache)    # the one tests/cli/lib.sh uses
    if(NOT model IN_LIST quick_${precision})
        set_tests_properties(${name} PROPERTIES LABELS long)
    endif()
endfunction()

# The same case on two ranks, each with half of every batch.
set(quick_ranks d2gan_ring dcgan_intended)
function(verify_on_ranks case model batch)
    if(NOT (MPI_FOUND AND MPIRUN) OR batch LESS 2)
        return()
    endif()
    set(name verify.ranks.${case})
    add_test(NAME ${name} COMMAND ${on_ranks} 2 $<TARGET_FILE:ganrun> verify ${model_file}
        ${CMAKE_CURRENT_SOURCE_DIR}/reference/${case}.json --device ref --precision f64)
    set_tests_properties(${name} PROPERTIES TIMEOUT 1800)
    if(NOT case IN_LIST quick_ranks)
        set_tests_properties(${name} PROPERTIES LABELS long)
    endif()
endfunction()

file(GLOB cases CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/reference/*.json)
foreach(file IN LISTS cases)
    get_filename_component(case ${file} NAME_WE)
    file(READ ${file} text)
    string(JSON model GET "${text}" model)
    set(model_file ${CMAKE_SOURCE_DIR}/models/${model}.gan)
    if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/reference/${model}.gan)    # made for its case
        set(model_file ${CMAKE_CURRENT_SOURCE_DIR}/reference/${model}.gan)
    endif()
    verify_case(${case} ${model} ref f64)
    verify_case(${case} ${model} cpu f32)
    string(JSON batch GET "${text}" options batch)
    verify_on_ranks(${case} ${model} ${batch})
endforeach()

# Every model at its default size.
gan_program(full_size_test full_size_test.c gan_run)
file(GLOB models CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/models/*.gan)
foreach(file IN LISTS models)
    get_filename_component(model ${file} NAME_WE)
    foreach(precision f32 bf16)
        add_test(NAME full_size.${precision}.${model} COMMAND full_size_test ${file} --precision ${precision})
        set_tests_properties(full_size.${precision}.${model} PROPERTIES TIMEOUT 900 LABELS long)
    endforeach()
endforeach()
