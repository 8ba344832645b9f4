# Runs an example and compares what it prints with its expected.txt.
execute_process(COMMAND ${PROGRAM} OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE code)
file(READ ${EXPECTED} expected)
if(NOT code EQUAL 0 OR NOT output STREQUAL expected)
  message(FATAL_ERROR "exit code ${code}, printed:\n${output}\nexpected:\n${expected}")
endif()
