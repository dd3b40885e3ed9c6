# gan_test(NAME FILES... LIBS libs... [LABELS l...]): builds one test program and registers each of its cases.
function(gan_test name)
    cmake_parse_arguments(T "" "" "LIBS;LABELS" ${ARGN})
    foreach(file IN LISTS T_UNPARSED_ARGUMENTS)
        if(NOT EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${file})
            message(STATUS "test ${name}: ${file} is missing")
            return()
        endif()
    endforeach()
    add_executable(${name} ${T_UNPARSED_ARGUMENTS})
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    target_include_directories(${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/support)
    target_compile_definitions(${name} PRIVATE TEST_DIR="${CMAKE_CURRENT_SOURCE_DIR}" ROOT_DIR="${CMAKE_SOURCE_DIR}"
                               BUILD_DIR="${CMAKE_BINARY_DIR}")
    target_link_libraries(${name} PRIVATE ${T_LIBS} gan_options)
    if(CMOCKA_FOUND)
        target_link_libraries(${name} PRIVATE PkgConfig::CMOCKA)
    endif()
    set(found ${CMAKE_CURRENT_BINARY_DIR}/${name}_cases.cmake)
    add_custom_command(TARGET ${name} POST_BUILD VERBATIM
        COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:${name}> -DNAME=${name} -DOUT=${found} "-DLABELS=${T_LABELS}"
                -P ${CMAKE_CURRENT_SOURCE_DIR}/discover.cmake)
    if(NOT EXISTS ${found})
        file(WRITE ${found} "add_test(${name}.is_not_built false)\n")
    endif()
    set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${found})
endfunction()

gan_test(base_test unit/base_test.c LIBS gan_base)
gan_test(json_test unit/json_test.c LIBS gan_base)
gan_test(graph_test unit/graph_test.c LIBS gan_ir)
gan_test(rules_test rules_test.c LIBS gan_ir)
gan_test(prelude_test unit/prelude_test.c LIBS gan_ir)
gan_test(ops_test ops_test.c support/interp.c support/naive.c LIBS gan_pass)
gan_test(grad_test grad_test.c support/interp.c LIBS gan_pass)
gan_test(text_test unit/text_test.c LIBS gan_ir)
gan_test(dtype_test unit/dtype_test.c support/interp.c LIBS gan_pass)
gan_test(front_test front_test.c LIBS gan_front)
gan_test(elab_test elab_test.c LIBS gan_front)
gan_test(fuse_test fuse_test.c support/programs.c LIBS gan_gen)
set(kernels support/kernel_cases.c support/kernel_runs.c support/interp.c)
gan_test(kernel_test kernel_test.c ${kernels} LIBS gan_gen)
gan_test(plan_test plan_test.c support/programs.c LIBS gan_driver)
gan_test(device_test unit/device_test.c support/programs.c LIBS gan_gen gan_device)
gan_test(comm_test unit/comm_test.c LIBS gan_comm)
gan_test(data_test unit/data_test.c LIBS gan_data)
gan_test(stream_test unit/stream_test.c LIBS gan_data)
gan_test(measure_test unit/measure_test.c LIBS gan_data)
gan_test(hdf5_test unit/hdf5_test.c LIBS gan_data)
gan_test(run_test unit/run_test.c LIBS gan_run)
gan_test(scale_test unit/scale_test.c LIBS gan_run)
gan_test(events_test unit/events_test.c LIBS gan_run)
gan_test(stdlib_test stdlib_test.c support/trial.c support/interp.c LIBS gan_run)
gan_test(collective_test collective_test.c LIBS gan_driver)
gan_test(shard_test shard_test.c support/ranks.c support/interp.c LIBS gan_run gan_comm Threads::Threads)
gan_test(shard_long_test shard_test.c support/ranks.c support/interp.c LIBS gan_run gan_comm Threads::Threads LABELS long)
target_compile_definitions(shard_long_test PRIVATE ALL_MODELS)
gan_test(schedules_test schedules_test.c support/ranks.c support/interp.c LIBS gan_run gan_comm Threads::Threads)
gan_test(schedules_long_test schedules_test.c support/ranks.c support/interp.c LIBS gan_run gan_comm Threads::Threads LABELS long)
target_compile_definitions(schedules_long_test PRIVATE CASES=500)
gan_test(models_test models_test.c support/trial.c support/interp.c LIBS gan_run)
gan_test(cost_test cost_test.c support/trial.c support/interp.c LIBS gan_run)

# Kernels in CUDA C, compiled by NVRTC where the machine has it: one kind of card and one precision here, all in the
# long tier.
set(compiled cuda/nvrtc_test.c cuda/resources.c support/kernel_cases.c LIBS gan_driver gan_device)
gan_test(nvrtc_test ${compiled})
target_compile_definitions(nvrtc_test PRIVATE ARCHITECTURES=90 PRECISIONS=DtF32)
gan_test(nvrtc_all_test ${compiled} LABELS long)
target_compile_definitions(nvrtc_all_test PRIVATE ARCHITECTURES=80,90,100 PRECISIONS=DtF32,DtBF16)

add_executable(kernel_report cuda/kernel_report.c cuda/resources.c) # a table for docs/performance.md
set_target_properties(kernel_report PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
target_link_libraries(kernel_report PRIVATE gan_driver gan_device gan_options)

# Kernels in CUDA C, run on the CPU (tests/cuda/shim.h). The shim answers the calls of the thread sanitizer and switches
# stacks, which other sanitizers do not follow.
if(GAN_SANITIZE)
    message(STATUS "tests of CUDA kernels: not built with sanitizers")
else()
    add_library(gan_shim STATIC cuda/shim_code.c cuda/shim_memory.c cuda/shim_run.c)
    target_compile_definitions(gan_shim PRIVATE TEST_DIR="${CMAKE_CURRENT_SOURCE_DIR}" BUILD_DIR="${CMAKE_BINARY_DIR}")
    target_link_libraries(gan_shim PUBLIC gan_base ${CMAKE_DL_LIBS} PRIVATE gan_options)
    gan_test(shim_test cuda/shim_test.c LIBS gan_shim)
    gan_test(region_test cuda/region_test.c cuda/shim_cases.c cuda/shim_region.c ${kernels} LIBS gan_shim gan_gen)
    gan_test(anchor_test cuda/anchor_test.c cuda/shim_cases.c cuda/shim_region.c ${kernels} LIBS gan_shim gan_gen)
    set(played cuda/shim_models_test.c cuda/shim_device.c cuda/shim_region.c support/trial.c support/interp.c
        LIBS gan_shim gan_run)
    gan_test(shim_models_test ${played})
    target_compile_definitions(shim_models_test PRIVATE ALL=0)
    gan_test(shim_all_models_test ${played} LABELS long)
    target_compile_definitions(shim_all_models_test PRIVATE ALL=1)
    set_target_properties(shim_test region_test anchor_test shim_models_test shim_all_models_test
                          PROPERTIES ENABLE_EXPORTS ON)
endif()

# The host side of the cuda device, against a driver that records (tests/cuda/record.h).
if(GAN_HAVE_CUDNN)
    gan_test(host_test cuda/host_test.c cuda/record_driver.c cuda/record_dnn.c cuda/record_order.c cuda/record_plan.c
             support/trial.c support/interp.c LIBS gan_run)
    gan_test(host_dnn_test cuda/host_dnn_test.c support/programs.c LIBS gan_device)
    gan_test(host_library_test cuda/host_library_test.c support/trial.c support/interp.c LIBS gan_run)
else()
    message(STATUS "tests: the CUDA and cuDNN headers are not found; host_test is left out")
endif()

# Whole commands: shell scripts that are given the program.
foreach(name options run eval resume damage gradients bad_model bad_data bad_run bench verify new stages ganx nonfinite look choices)
    add_test(NAME cli_${name} COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/cli/${name}.sh $<TARGET_FILE:ganrun>)
    set_tests_properties(cli_${name} PROPERTIES TIMEOUT 300)
endforeach()

# The examples' scripts, the small ones always.
add_test(NAME cli_examples COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/cli/examples.sh $<TARGET_FILE:ganrun> d2gan_ring)
add_test(NAME cli_all_examples COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/cli/examples.sh $<TARGET_FILE:ganrun>
         dcgan sngan wgan_gp d3gan cyclegan aae3d cosmogan)
set_tests_properties(cli_examples cli_all_examples PROPERTIES TIMEOUT 1500)
set_tests_properties(cli_all_examples PROPERTIES LABELS long)
# Ranks. Where there is no MPI the scripts say so and are skipped.
set(on_ranks sh ${CMAKE_CURRENT_SOURCE_DIR}/cli/on_ranks.sh)
if(MPI_FOUND)
    add_library(gan_fault MODULE support/fault.c)  # preloaded into a rank: faults at set points
    set_target_properties(gan_fault PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    target_link_libraries(gan_fault PRIVATE PkgConfig::MPI gan_options ${CMAKE_DL_LIBS})
    if(dnnl_FOUND)
        target_compile_definitions(gan_fault PRIVATE WITH_DNNL)
        target_link_libraries(gan_fault PRIVATE DNNL::dnnl)
    endif()
endif()
foreach(name ranks ranks_faults ranks_points ranks_differ ranks_verify ranks_bench ranks_slurm)
    add_test(NAME cli_${name} COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/cli/${name}.sh $<TARGET_FILE:ganrun>)
    set_tests_properties(cli_${name} PROPERTIES TIMEOUT 300 SKIP_RETURN_CODE 77)
endforeach()
set_tests_properties(cli_ranks_slurm PROPERTIES LABELS long)    # tools/test installs a Slurm with --all only
if(MPI_FOUND AND MPIRUN)
    foreach(n 1 2 3 4)
        add_test(NAME comm_mpi.${n} COMMAND ${on_ranks} ${n} $<TARGET_FILE:comm_test> --mpi $<TARGET_FILE:gan_mpi>)
        set_tests_properties(comm_mpi.${n} PROPERTIES TIMEOUT 120)
    endforeach()
    foreach(n 3 4)                      # as if on two nodes; sanitizers want to be loaded first
        if(NOT GAN_SANITIZE)
            add_test(NAME comm_mpi.nodes.${n} COMMAND ${on_ranks} ${n} env LD_PRELOAD=$<TARGET_FILE:gan_fault> GAN_FAULT=nodes
                     $<TARGET_FILE:comm_test> --mpi $<TARGET_FILE:gan_mpi>)
            set_tests_properties(comm_mpi.nodes.${n} PROPERTIES TIMEOUT 120)
        endif()
    endforeach()
endif()

include(verify.cmake)
