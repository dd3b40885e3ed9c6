# gan_test(NAME FILES... LIBS libs... [LABELS l...]): builds one test program and registers each of its cases.
function(gan_test name)
    cmake_parse_arguments(T "" "" "LIBS;LABELS" ${ARGN})
    add_executable(${name} ${T_UNPARSED_ARGUMENTS})
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    target_link_libraries(${name} PRIVATE gan_support ${T_LIBS})
    if(NOT CMOCKA_FOUND)
        set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)   # neither built nor registered
        return()
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

# gan_program(NAME FILE LIBS...): one that is run by hand, or with arguments.
function(gan_program name file)
    add_executable(${name} ${file})
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    target_compile_definitions(${name} PRIVATE BUILD_DIR="${CMAKE_BINARY_DIR}")
    target_link_libraries(${name} PRIVATE ${ARGN})
endfunction()

# gan_shared(NAME FILES...): what tests share. An archive without dependencies: a test takes the objects that it calls, and links
# the layers which these need.
function(gan_shared name)
    add_library(${name} STATIC ${ARGN})
    if(NOT CMOCKA_FOUND)
        set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
    endif()
    target_include_directories(${name} PRIVATE $<TARGET_PROPERTY:gan_run,INTERFACE_INCLUDE_DIRECTORIES>)
    target_include_directories(${name} SYSTEM PRIVATE $<TARGET_PROPERTY:gan_run,INTERFACE_SYSTEM_INCLUDE_DIRECTORIES>)
    target_compile_definitions(${name} PRIVATE $<TARGET_PROPERTY:gan_run,INTERFACE_COMPILE_DEFINITIONS>)
    target_link_libraries(${name} PRIVATE gan_options)
endfunction()
gan_shared(gan_support support/comm_ranks.c support/edited.c support/interp.c support/kernel_cases.c support/kernel_runs.c support/naive.c
           support/pass_cases.c support/plan_sim.c support/programs.c support/programs_anchor.c support/ranks_run.c support/trial.c)
target_include_directories(gan_support PUBLIC support)
target_compile_definitions(gan_support PUBLIC TEST_DIR="${CMAKE_CURRENT_SOURCE_DIR}" ROOT_DIR="${CMAKE_SOURCE_DIR}" BUILD_DIR="${CMAKE_BINARY_DIR}")
if(CMOCKA_FOUND)
    target_link_libraries(gan_support PUBLIC PkgConfig::CMOCKA)
endif()

gan_test(base_test unit/base_test.c LIBS gan_base)
gan_test(process_test unit/process_test.c LIBS gan_base)
gan_test(json_test unit/json_test.c LIBS gan_base)
gan_test(graph_test unit/graph_test.c LIBS gan_ir)
gan_test(rules_test rules_test.c LIBS gan_ir)
gan_test(prelude_test unit/prelude_test.c LIBS gan_ir)
gan_test(text_test unit/text_test.c LIBS gan_ir)
gan_test(ops_test ops_test.c LIBS gan_pass)
gan_test(grad_test grad_test.c LIBS gan_pass)
gan_test(dtype_test unit/dtype_test.c LIBS gan_plan)
gan_test(rewrite_test unit/rewrite_test.c LIBS gan_pass)
gan_test(memory_test memory_test.c LIBS gan_plan)
gan_test(schedule_test schedule_test.c LIBS gan_plan)
gan_test(front_test front_test.c LIBS gan_front)
gan_test(elab_test elab_test.c LIBS gan_elab)
gan_test(elab_step_test elab_step_test.c LIBS gan_elab)
gan_test(mistakes_test mistakes_test.c LIBS gan_elab)
gan_test(arguments_test arguments_test.c LIBS gan_elab)
gan_test(fuse_test fuse_test.c LIBS gan_gen)
gan_test(kernel_test kernel_test.c LIBS gan_gen gan_device)
gan_test(lsp_test lsp_test.c LIBS gan_lsp)
gan_test(passes_test passes_test.c LIBS gan_driver)
gan_test(plan_test plan_test.c LIBS gan_driver)
gan_test(plan_text_test plan_text_test.c LIBS gan_driver)
gan_test(verify_plan_test verify_plan_test.c LIBS gan_driver)
gan_test(times_test times_test.c LIBS gan_driver)
gan_test(collective_test collective_test.c LIBS gan_driver)
gan_test(device_test unit/device_test.c LIBS gan_gen gan_device)
if(dnnl_FOUND)
    gan_test(dnn_conv_test unit/dnn_conv_test.c unit/conv_sums.c LIBS gan_device DNNL::dnnl)
    gan_test(dnn_tiles_test unit/dnn_tiles_test.c unit/conv_sums.c LIBS gan_device DNNL::dnnl)
    if(GAN_COMPILES_AMX)
        set(tiles ${CMAKE_SOURCE_DIR}/runtime/device/tiles.c)   # in place of the library's
        gan_test(dnn_tiles_emulated_test unit/dnn_tiles_test.c unit/conv_sums.c ${tiles} LIBS gan_device DNNL::dnnl)
        set_source_files_properties(${tiles} PROPERTIES COMPILE_OPTIONS
                                    "-march=x86-64-v4;-mavx512bf16;-include;${CMAKE_CURRENT_SOURCE_DIR}/unit/matrix_unit.h")
    endif()
    gan_test(dnn_library_test unit/dnn_library_test.c LIBS gan_device DNNL::dnnl)
    gan_test(dnn_method_test unit/dnn_method_test.c LIBS gan_driver gan_device DNNL::dnnl)
endif()
gan_test(jit_test unit/jit_test.c LIBS gan_device)
gan_test(fft_test unit/fft_test.c LIBS gan_device)
gan_test(order_test unit/order_test.c LIBS gan_device)
foreach(name comm_test comm_overlap_test comm_faults_test)
    gan_test(${name} unit/${name}.c LIBS gan_comm)
endforeach()
foreach(name image_test data_test labels_test lmdb_test stream_test xform_test tensors_test
        hdf5_test)
    gan_test(${name} unit/${name}.c LIBS gan_data)
endforeach()
gan_test(measure_test unit/measure_test.c LIBS gan_measure)
foreach(name readers_test bench_test doctor_test distance_test run_test shares_test health_test ranks_test scale_test events_test)
    gan_test(${name} unit/${name}.c LIBS gan_run)
endforeach()
set_target_properties(doctor_test PROPERTIES ENABLE_EXPORTS ON)     # it is the driver, too
foreach(name mask_test join_dots_test fold_strides_test pad_channels_test one_hot_test strips_test stdlib_test import_test import_files_test loss_scale_test models_test cost_test)
    gan_test(${name} ${name}.c LIBS gan_run)
endforeach()
foreach(name shard remat)
    gan_test(${name}_test ${name}_test.c LIBS gan_run)
    gan_test(${name}_long_test ${name}_test.c LIBS gan_run LABELS long)
    target_compile_definitions(${name}_long_test PRIVATE ALL_MODELS)
endforeach()
gan_shared(gan_random random/make_expr.c random/make_layer.c random/make_chain.c random/make_model.c random/plain.c random/check.c random/shrink.c random/texts.c)
target_link_libraries(gan_random PUBLIC gan_support)
gan_test(random_test random_test.c LIBS gan_random gan_run)
gan_test(random_long_test random_test.c LIBS gan_random gan_run LABELS long)
target_compile_definitions(random_long_test PRIVATE CASES=600 COMPILED_CASES=60 CARD_CASES=40 PARTS=10)

# Kernels in CUDA C, compiled by NVRTC where the machine has it: one kind of card and one precision here, all in the
# long tier.
gan_test(nvrtc_test cuda/nvrtc_test.c LIBS gan_driver gan_device)
target_compile_definitions(nvrtc_test PRIVATE ARCHITECTURES=90 PRECISIONS=DtF32)
gan_test(nvrtc_all_test cuda/nvrtc_test.c LIBS gan_driver gan_device LABELS long)
target_compile_definitions(nvrtc_all_test PRIVATE ARCHITECTURES=80,90,100 PRECISIONS=DtF32,DtBF16,DtF16)
gan_program(kernel_report cuda/kernel_report.c gan_driver gan_device)    # a table for docs/performance.md
gan_program(floor_report cuda/floor_report.c gan_driver)                 # another

# Each launch of a step against the reference evaluator, on any device.
gan_shared(gan_launch_check cuda/launch_check.c cuda/region_check.c)
target_include_directories(gan_launch_check PUBLIC cuda)
gan_program(launches cuda/launches.c gan_launch_check gan_run)
gan_test(launch_check_test cuda/launch_check_test.c LIBS gan_launch_check gan_support gan_run)

# Kernels in CUDA C, run on the CPU (tests/cuda/shim.h). The shim answers the calls of the thread sanitizer and switches
# stacks, which other sanitizers do not follow.
if(GAN_SANITIZE)
    message(STATUS "tests of CUDA kernels: not built with sanitizers")
else()
    add_library(gan_shim STATIC cuda/shim_code.c cuda/shim_memory.c cuda/shim_run.c)
    target_compile_definitions(gan_shim PRIVATE TEST_DIR="${CMAKE_CURRENT_SOURCE_DIR}" BUILD_DIR="${CMAKE_BINARY_DIR}")
    target_link_libraries(gan_shim PUBLIC gan_device ${CMAKE_DL_LIBS})
    set_source_files_properties(cuda/shim_memory.c cuda/shim_run.c
        PROPERTIES COMPILE_OPTIONS -Wno-missing-prototypes) # kernels call them, no other file
    target_link_options(gan_shim INTERFACE -rdynamic)   # kernels call the shim
    gan_shared(gan_shim_plans cuda/shim_region.c cuda/shim_cases.c cuda/shim_device.c)
    target_include_directories(gan_shim_plans PUBLIC cuda)
    target_link_libraries(gan_shim_plans PUBLIC gan_launch_check gan_support gan_shim)
    gan_test(shim_test cuda/shim_test.c LIBS gan_shim)
    gan_test(division_test cuda/division_test.c LIBS gan_shim gan_gen)
    gan_test(region_test cuda/region_test.c LIBS gan_shim_plans gan_gen)
    gan_test(anchor_test cuda/anchor_test.c LIBS gan_shim_plans gan_gen)
    gan_test(shim_models_test cuda/shim_models_test.c LIBS gan_shim_plans gan_run)
    target_compile_definitions(shim_models_test PRIVATE ALL=0)
    gan_test(shim_all_models_test cuda/shim_models_test.c LIBS gan_shim_plans gan_run LABELS long)
    target_compile_definitions(shim_all_models_test PRIVATE ALL=1)
    target_link_libraries(gan_random PUBLIC gan_shim_plans)
    target_compile_definitions(gan_random PUBLIC WITH_SHIM=1)
endif()

# The host side of the cuda device, against a driver that records (tests/cuda/record.h).
if(GAN_HAVE_CUDNN)
    gan_shared(gan_recorder cuda/host_run.c cuda/record_driver.c cuda/record_memory.c cuda/record_stream.c cuda/record_dnn.c cuda/record_fft.c
               cuda/record_nccl.c cuda/record_cupti.c cuda/record_order.c cuda/record_plan.c)
    target_link_libraries(gan_recorder PUBLIC gan_support)
    foreach(name host_test host_ask_test host_branch_test host_memory_test host_failure_test host_epilogue_test host_busy_test record_test)
        gan_test(${name} cuda/${name}.c LIBS gan_recorder gan_run)
    endforeach()
    if(GAN_HAVE_NCCL)
        gan_test(host_ranks_test cuda/host_ranks_test.c LIBS gan_recorder gan_run)
        gan_program(nccl_alone cuda/nccl_alone.c gan_device)
    endif()
    if(GAN_HAVE_CUFFT)
        gan_test(host_fft_test cuda/host_fft_test.c LIBS gan_recorder gan_run)
        set(none ../runtime/device/cuda_fft_none.c ../runtime/device/cuda_info.c) # as where cufft.h was not found
        gan_test(host_fft_none_test cuda/host_fft_test.c ${none} LIBS gan_recorder gan_run)
        target_compile_definitions(host_fft_none_test PRIVATE WITHOUT_HEADER)
        set_source_files_properties(${none} PROPERTIES COMPILE_OPTIONS -UGAN_HAVE_CUFFT)
    endif()
    foreach(name host_dnn_test host_library_test host_compiled_test)
        gan_test(${name} cuda/${name}.c LIBS gan_run)
    endforeach()
    gan_program(call_report cuda/call_report.c gan_driver gan_device)    # a table for docs/performance.md
    add_library(no_card SHARED cuda/no_card.c)      # what cuDNN looks for is its name inside
    target_link_options(no_card PRIVATE -Wl,-soname,libcuda.so.1)
    set_target_properties(no_card PROPERTIES NO_SONAME ON LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    add_dependencies(host_compiled_test no_card)
    add_dependencies(call_report no_card)
    gan_program(branch_report cuda/branch_report.c gan_recorder gan_run) # the same
    add_dependencies(branch_report no_card)
else()
    message(STATUS "tests of the cuda device: left out, as the headers of CUDA or cuDNN are not found")
endif()

# Whole commands: shell scripts that are given the program.
foreach(name options run eval resume f16 damage gradients bad_model bad_data bad_run bench verify new stages train_stages ganx nonfinite inspect inputs sample_all control_flow plan from pretrained compilers lsp einsum next faults install sound gpu_bench train_metrics onnx onnx_runtime import import_torch weights_torch)
    add_test(NAME cli_${name} COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/cli/${name}.sh $<TARGET_FILE:ganrun>)
    set_tests_properties(cli_${name} PROPERTIES TIMEOUT 300 SKIP_RETURN_CODE 77)
endforeach()

gan_program(swd_times bench/swd_times.c gan_run)    # for tests/bench/distances.py

file(GLOB shipped CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/stdlib/*.gan ${CMAKE_SOURCE_DIR}/models/*.gan)
add_test(NAME fmt_shipped COMMAND ganc fmt --check ${shipped})    # what we ship is in canonical layout

add_library(refusing_nvrtc SHARED cuda/refusing_nvrtc.c) # found in a folder of its own by what the command looks for
set_target_properties(refusing_nvrtc PROPERTIES OUTPUT_NAME nvrtc SUFFIX .so.13 LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/refusing)
target_include_directories(refusing_nvrtc PRIVATE ${CMAKE_SOURCE_DIR}/runtime/device)
add_test(NAME cli_nvrtc_error COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/cli/nvrtc_error.sh $<TARGET_FILE:ganrun> ${CMAKE_BINARY_DIR}/tests/refusing)

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
    target_link_libraries(gan_fault PRIVATE PkgConfig::MPI gan_options ${CMAKE_DL_LIBS} -fno-sanitize=all)
    set_source_files_properties(support/fault.c PROPERTIES COMPILE_OPTIONS -fno-sanitize=all) # the compiler that a rank starts has it, too
    if(dnnl_FOUND)
        target_compile_definitions(gan_fault PRIVATE WITH_DNNL)
        target_link_libraries(gan_fault PRIVATE DNNL::dnnl)
    endif()
endif()
foreach(name ranks ranks_faults ranks_points ranks_tail ranks_differ ranks_verify ranks_bench ranks_slurm)
    add_test(NAME cli_${name} COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/cli/${name}.sh $<TARGET_FILE:ganrun>)
    set_tests_properties(cli_${name} PROPERTIES TIMEOUT 900 SKIP_RETURN_CODE 77)
endforeach()
set_tests_properties(cli_ranks_slurm PROPERTIES LABELS long)    # tools/test installs a Slurm with --all only
if(MPI_FOUND AND MPIRUN AND CMOCKA_FOUND)
    foreach(n 1 2 3 4 7)
        add_test(NAME comm_mpi.${n} COMMAND ${on_ranks} ${n} $<TARGET_FILE:comm_test> --mpi $<TARGET_FILE:gan_mpi>)
        set_tests_properties(comm_mpi.${n} PROPERTIES TIMEOUT 120)
    endforeach()
    # As if on two nodes, as if strangers, with reads counted; sanitizers want to be loaded first.
    foreach(case nodes.3 nodes.4 far.2 far.3 far.7 read.2 read.3)
        if(NOT GAN_SANITIZE)
            string(REPLACE "." ";" fault_n ${case})
            list(GET fault_n 0 fault)
            list(GET fault_n 1 n)
            add_test(NAME comm_mpi.${case} COMMAND ${on_ranks} ${n} env LD_PRELOAD=$<TARGET_FILE:gan_fault> GAN_FAULT=${fault}
                     $<TARGET_FILE:comm_test> --mpi $<TARGET_FILE:gan_mpi>)
            set_tests_properties(comm_mpi.${case} PROPERTIES TIMEOUT 120)
        endif()
    endforeach()
endif()

include(verify.cmake)
