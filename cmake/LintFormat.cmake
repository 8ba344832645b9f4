# Every source is laid out as .clang-format says. scripts/format mends it.
file(GLOB_RECURSE files ${SOURCE_DIR}/sextant/*.h ${SOURCE_DIR}/sextant/*.cc ${SOURCE_DIR}/cli/*.h ${SOURCE_DIR}/cli/*.cc ${SOURCE_DIR}/tests/*.h
     ${SOURCE_DIR}/tests/*.cc ${SOURCE_DIR}/examples/*.h ${SOURCE_DIR}/examples/*.cc ${SOURCE_DIR}/bench/*.h ${SOURCE_DIR}/bench/*.cc)
execute_process(COMMAND ${CLANG_FORMAT} --dry-run --Werror ${files} RESULT_VARIABLE code ERROR_VARIABLE output)
if(NOT code EQUAL 0)
  message(FATAL_ERROR "${output}\nscripts/format mends it")
endif()
