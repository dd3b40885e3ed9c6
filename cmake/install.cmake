# `cmake --install build [--prefix DIR]`: the programs, their manual pages, and completion for shells, which the programs
# themselves write from their tables of options.
if(GAN_PORTABLE)
    return()    # one folder, laid out by portable.cmake
endif()
include(GNUInstallDirs)
install(TARGETS ganc ganrun RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)
if(TARGET gan_mpi)
    install(TARGETS gan_mpi LIBRARY DESTINATION lib/gan COMPONENT mpi)    # where runtime/job/ranks.c looks, from bin
endif()

# written(PROGRAM KIND NAME FOLDER): what `PROGRAM completion KIND` writes, installed as FOLDER/NAME.
function(written program kind name folder)
    set(out ${CMAKE_BINARY_DIR}/share/${kind}/${name})
    add_custom_command(OUTPUT ${out} VERBATIM DEPENDS ${program}
        COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/share/${kind}
        COMMAND ${program} completion ${kind} > ${out})
    install(FILES ${out} DESTINATION ${CMAKE_INSTALL_DATADIR}/${folder})
    set_property(GLOBAL APPEND PROPERTY gan_written ${out})
endfunction()
foreach(program ganc ganrun)
    written(${program} man  ${program}.1    man/man1)
    written(${program} bash ${program}      bash-completion/completions)
    written(${program} zsh  _${program}     zsh/site-functions)
    written(${program} fish ${program}.fish fish/vendor_completions.d)
endforeach()
get_property(files GLOBAL PROPERTY gan_written)
add_custom_target(written ALL DEPENDS ${files})
