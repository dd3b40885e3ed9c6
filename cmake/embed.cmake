# embed_files(OUT SYMBOL FILE...): writes OUT, a C file defining
#   const EmbeddedFile SYMBOL[] = { {"name", "text", length}, ..., {0} };
# so that the programs need no installed data. EmbeddedFile is declared in base/embed.h.
function(embed_files out symbol)
    set(script ${CMAKE_SOURCE_DIR}/cmake/embed_script.cmake)
    list(JOIN ARGN "|" files)
    add_custom_command(OUTPUT ${out}
        COMMAND ${CMAKE_COMMAND} -DOUT=${out} -DSYMBOL=${symbol} "-DFILES=${files}" -P ${script}
        DEPENDS ${ARGN} ${script} VERBATIM)
endfunction()
